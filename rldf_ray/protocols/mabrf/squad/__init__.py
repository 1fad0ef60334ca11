"""SQuAD v2: whether a reader is helped by what is looked up (METHOD-search 1.4)."""
