"""Finished evaluations in the forms that other programs read: inspect_ai, lm-evaluation-harness.

Each reader of results makes `EvalLog`s, and each form writes them; neither knows the other.
"""
