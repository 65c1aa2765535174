"""One learning method a file, each a straight line of named stages, declared by a `Method`."""
