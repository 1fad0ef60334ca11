"""Judges alone, in debate, and above a pool: how biased they are.

`judging.py` has the three systems, `views.py` the biases, `prompt.py` what each seat is asked,
`verdict.py` what a text says, `study.py` the whole study, `analysis.py` what it comes to.
The paper is C. Ma, E. Zhang et al. 2025, *Judging with Many Minds: Do More Perspectives Mean Less
Prejudice? On Bias Amplification and Resistance in Multi-Agent Based LLM-as-Judge*; its code,
Henrymachiyu/Multi_Agent_Judge_Bias on GitHub. Where both are silent or contradict each other, what
is done here is called a choice.
"""
