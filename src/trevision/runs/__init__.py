"""One run from data to result.json, and what is made of a finished one."""
