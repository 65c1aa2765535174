"""One self-contained HTML page about a finished run, and applying its corrections to the labels."""
