"""One method a file; its name is the file's. A file here is all that registers a method.

A file has PLACE, its place among the rows, and `rows(plan, teachers)`: the rows of the tables it
gives, none where the plan has nothing for it.
"""
