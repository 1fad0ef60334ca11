"""MABRF: a model's reasoning is judged, evidence looked up, the steps rewritten, then answered.

The study (`study.py`) runs the loop (`loop.py`) on multiple-choice items or free questions, with
and without search; `squad/` asks whether evidence helps a reader. Source: METHOD-search.
"""
