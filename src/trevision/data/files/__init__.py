"""Data of a user's own: tables, arrays, folders of images."""
