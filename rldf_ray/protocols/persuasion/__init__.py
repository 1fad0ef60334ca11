"""Persuasive debate: experts who hold a story argue before a judge who cannot read it.

Debate, interactive debate and consultancy, with best-of-N and critique-of-N debaters, naive and
expert bounds, win rates and Elo. The paper is A. Khan, J. Hughes, D. Valentine et al. 2024,
*Debating with More Persuasive LLMs Leads to More Truthful Answers*; its code, ucl-dark/llm_debate
on GitHub. Where both are silent or contradict each other, what is done here is called a choice.
"""
