"""SQuAD v2: whether a reader is helped by what is looked up (the paper, section 5.2)."""
