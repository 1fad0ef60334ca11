"""One method a file; its name is the file's. A method is found by being here.

A file has PLACE, its place among the rows, and `rows(plan, teachers)`: the rows of the tables it
gives, none where the plan has nothing for it.
"""
