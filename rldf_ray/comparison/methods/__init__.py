"""One method a file; its name is the file's. A file here is all that registers a method.

A file has PLACE, its place among the rows, and `rows(plan, teachers)`: the rows of the tables it
gives, none where the plan has nothing for it. `CONTROL = True` keeps it out of a comparison that
names no methods: what a control differs in from another row says what that difference is worth.
`ON_REQUEST = True` does so, too, for methods of other papers.
"""
