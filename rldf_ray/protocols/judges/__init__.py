"""Judges alone, in debate, and above a pool (Ma et al. 2025; METHOD-judges).

`judging.py` has the three systems, `views.py` the biases, `prompt.py` what each seat is asked,
`verdict.py` what a text says, `study.py` the whole study, `analysis.py` what it comes to.
"""
