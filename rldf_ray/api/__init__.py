"""The Python API: what the command line does, as functions (docs/python.md)."""
