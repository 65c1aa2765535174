"""One self-contained HTML page from a finished run, and the way back from its corrections to the labels."""
