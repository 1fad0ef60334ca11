"""MABRF: a model's reasoning is judged, evidence looked up, the steps rewritten, then answered.

The study (`study.py`) runs the loop (`loop.py`) on multiple-choice items or free questions, with
and without search; `squad/` asks whether evidence helps a reader. The paper is A. Roy and M. U.
Rehman 2025, *Multi-Agent Debiasing Framework with Online Search-Based Validation*; its code,
Mughees2001/Multi-Agent-Debiasing-Framework on GitHub. Where both are silent or contradict each
other, what is done here is called a choice.
"""
