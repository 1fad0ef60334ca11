"""BBQ as published: its items, its files, balanced samples, its scores. No model."""
