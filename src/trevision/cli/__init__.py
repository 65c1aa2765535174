"""The `trevision` command."""

from __future__ import annotations

import os
import sys


def main(arguments: list[str] | None = None) -> None:
    """Run one command; a user's mistake ends in one line on standard error and exit status 2."""
    # Imported here, so that `import trevision.cli` stays cheap for those who only want `main`.
    from trevision.cli.commands import run_command

    try:
        run_command(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:
        # Who read our output wanted no more of it (`| head`). What is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # as a shell tells of a program that SIGPIPE ended
    except (ValueError, OSError, RuntimeError) as error:
        if os.environ.get("TREVISION_TRACEBACK"):
            raise
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"trevision: {message}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(
            "trevision: stopped; the same command continues a run that has a folder",
            file=sys.stderr,
        )
        sys.exit(130)
