"""The laboratory: the tables and figures of the paper, and those beyond it."""
