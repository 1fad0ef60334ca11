"""Looking evidence up: a query goes to a backend, and hits come back.

`backend.py` is the seam, `backends/` what answers (found by being there), `corpus.py` a local index
of one's own texts, `journaled.py` what makes a rerun ask nothing twice.
"""
