"""EVINCE: two models argue over a label, from fierce to conciliatory, and leave reasons.

The study (`study.py`) holds a dialogue about each item (`dialogue.py`); `metrics.py`, `steering.py`
and `decision.py` are pure functions of what was recorded, so that a finished study can be steered,
stopped and decided again without a call. Source: METHOD-evince.
"""
