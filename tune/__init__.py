"""Sweeps: many plans that differ in a field or two, run with nothing computed twice."""
