"""`python -m trevision` is the `trevision` command."""

from trevision.cli import main

if __name__ == "__main__":
    main()
