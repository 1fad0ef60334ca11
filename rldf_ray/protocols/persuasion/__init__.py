"""Persuasive debate: experts who hold a story argue before a judge who cannot read it.

Debate, interactive debate and consultancy (Khan et al. 2024), with best-of-N and critique-of-N
debaters, naive and expert bounds, win rates and Elo. Source: METHOD-persuasion.
"""
