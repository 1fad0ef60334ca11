"""A protocol studied by itself: items, held by many at once, become tables, figures and a report.

`plans.py` reads a study's plan, `run.py` is the whole story, `writing.py` and `page.py` what people
read. What is particular to a protocol lies in its folder (`protocols/NAME/study.py`).
"""
