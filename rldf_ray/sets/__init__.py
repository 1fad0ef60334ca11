"""Published data sets as several rooms read them: items, files, and how answers are scored."""
