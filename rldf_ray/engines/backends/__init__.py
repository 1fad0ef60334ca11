"""The backends of models that speak: a file each; being in this folder makes it one.

'NAME:MODEL' in a plan is served by NAME.py, which has

    FACTS       rldf_ray.plan.speaker.BackendFacts
    check       check(model) raises ValueError, saying what may stand after the colon
    start       start(speaker, context) is a context manager of a ChatModel

A plan reads the first two, so such a file imports what computes only inside `start`.
"""
