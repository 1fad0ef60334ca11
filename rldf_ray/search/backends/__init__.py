"""What answers searches: a module each, named as plans name it, found by being here."""
