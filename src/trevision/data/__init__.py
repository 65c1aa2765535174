"""Data sets as plain tensors: named ones, anyone's arrays, and their split for learning from noisy labels."""
