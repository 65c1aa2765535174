"""The user's own data: tables, arrays, folders of images."""
