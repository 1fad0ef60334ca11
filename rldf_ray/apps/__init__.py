"""What stands on top of everything: the served policy (`serve/`) and sweeps (`tune/`)."""
