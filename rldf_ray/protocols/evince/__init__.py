"""EVINCE: two models argue over a label, from fierce to conciliatory, and leave reasons.

The study (`study.py`) holds a dialogue about each item (`dialogue.py`); `metrics.py`, `steering.py`
and `decision.py` are pure functions of what was recorded, so that a finished study can be steered,
stopped and decided again without a call. The paper is E. Y. Chang 2024, *Uncovering Biases with
Reflective Large Language Models*. Where it is silent or contradicts itself, what is done here is
called a choice.
"""
