"""The corrections, one file each: what a model is fitted on once T is known."""
