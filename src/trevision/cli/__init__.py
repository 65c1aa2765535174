"""The `trevision` command: one file per command, imported when it is used."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from trevision.extras import missing_extra

JOURNEY = {
    "check": "Find the wrong labels of a file, and review them on a page.",
    "fit": "Train a classifier on noisy labels, and count the wrong ones.",
    "issues": "List the labels of a run that are probably wrong.",
    "report": "Write one HTML page about a run, to review its suspects on.",
    "apply": "Write a copy of the labels with your corrections.",
}
"""From a file to reviewed labels. A command with a line for the overview."""

MORE = {
    "audit": "Tell how many labels are wrong, from a few rows you look at.",
    "predict": "Predict clean labels of new rows with the model of a run.",
    "score": "Score the model of a run on rows with noisy labels.",
    "estimate": "Estimate how labels go wrong, from any model's probabilities.",
}

LABORATORY = {
    "demo": "Find digits in the wrong folder; then compare plain training with T-Revision.",
    "data": "List the named data sets, and where each was found.",
    "reproduce": "Do the missing runs of a table of the paper, and show it.",
    "bound": "Print the bound of Theorem 1 for a run, term by term.",
}

COMMANDS = JOURNEY | MORE | LABORATORY
"""Each is a function in a module, both of that name."""

SHELLS = ("bash", "zsh", "tcsh")


def main(arguments: list[str] | None = None) -> None:
    """Run one command. A user's mistake prints one line on standard error and exits with status 2."""
    try:
        run_command(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:
        # The reader of our output has closed it (`| head`). Buffered output is dropped.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # the status that shells report after SIGPIPE
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        lacking = missing_extra(error) if isinstance(error, ImportError) else None
        if os.environ.get("TREVISION_TRACEBACK") or (isinstance(error, ImportError) and lacking is None):
            raise
        message = lacking or " ".join(str(error).split()) or type(error).__name__
        print(f"trevision: {message}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(
            "trevision: stopped; the same command continues a run that has a folder",
            file=sys.stderr,
        )
        sys.exit(130)


def run_command(arguments: list[str]) -> None:
    """Run the command that the first of `arguments` names, with the others."""
    name = arguments[0] if arguments else ""
    if name in ("-h", "--help"):
        print(overview())
        sys.exit(0)
    elif name == "--version":
        from importlib.metadata import version

        print(f"trevision {version('trevision')}")
    elif name == "--print-completion":
        print_completion(arguments[1] if len(arguments) > 1 else "")
    elif name in COMMANDS:
        from trevision.cli.parsing import parse_and_run

        command = getattr(import_module(f"trevision.cli.{name}"), name)
        parse_and_run(command, f"trevision {name}", arguments[1:])
    else:
        from trevision.files import did_you_mean

        got = f"got {name!r}{did_you_mean(name, COMMANDS)}" if name else "got none"
        raise ValueError(f"the command must be one of {', '.join(COMMANDS)}, {got}; see trevision --help")


def print_completion(shell: str) -> None:
    """Print a script that completes commands, flags and files in a shell."""
    if shell not in SHELLS:
        raise ValueError(f"the shell must be one of {', '.join(SHELLS)}, got {shell!r}")
    from trevision.cli.parsing import completion

    commands = {}
    for name in COMMANDS:
        try:
            commands[name] = getattr(import_module(f"trevision.cli.{name}"), name)
        except ImportError:  # it needs an extra that is not installed
            continue
    print(completion(commands, shell))


def overview() -> str:
    """What `trevision --help` prints: one screen of 24 lines and 80 columns."""
    width = max(map(len, COMMANDS))

    def lines(commands: dict[str, str]) -> list[str]:
        return [f"  {name:<{width}}  {summary}" for name, summary in commands.items()]

    return "\n".join(
        [
            "usage: trevision [-h] [--version] COMMAND ...",
            "",
            "Find wrong labels, and learn a good classifier from labels that are noisy.",
            "",
            *lines(JOURNEY),
            "",
            *lines(MORE),
            "",
            "  the laboratory:",
            *lines(LABORATORY),
            "",
            "trevision COMMAND --help lists its flags, with examples.",
            "trevision --print-completion bash (or zsh, tcsh) prints a shell completion.",
        ]
    )
