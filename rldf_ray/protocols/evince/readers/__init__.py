"""How published sets and one's own files are read: a module each, found by being here."""
