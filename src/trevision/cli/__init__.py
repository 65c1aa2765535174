"""The `trevision` command: one file per command, imported when it is used."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from trevision.extras import missing_extra
from trevision.files import NO_ROOM, SAFE, TrevisionError

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
    "doctor": "Say what is installed, on what machine, and whether it works.",
}

LABORATORY = {
    "demo": "Find digits in wrong folders; compare T-Revision to plain training.",
    "data": "List the named data sets, and where each was found.",
    "reproduce": "Do the missing runs of a table of the paper, and show it.",
    "bound": "Print the bound of Theorem 1 for a run, term by term.",
}

COMMANDS = JOURNEY | MORE | LABORATORY
"""Each is a function in a module, both of that name."""

SHELLS = ("bash", "zsh", "tcsh")


def main(arguments: list[str] | None = None) -> None:
    """Run one command. A user's mistake prints one line on standard error and exits with status 2.

    A mistake of ours prints one line that says so, and exits with status 70.
    """
    try:
        with told_signals():
            run_command(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:
        # The reader of our output has closed it (`| head`). Buffered output is dropped.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # the status that shells report after SIGPIPE
    except Exception as error:
        if os.environ.get("TREVISION_TRACEBACK"):
            raise
        message, status = told(error)
        print(f"trevision: {message}", file=sys.stderr)
        sys.exit(status)
    except KeyboardInterrupt as stop:
        by = stop.number if isinstance(stop, Stopped) else signal.SIGINT
        name = "" if by == signal.SIGINT else f" by {by.name}"
        print(
            f"trevision: stopped{name}; the same command continues a run that has a folder",
            file=sys.stderr,
        )
        sys.exit(128 + by)


class Stopped(KeyboardInterrupt):
    """Another signal than that of the keyboard asks this process to end."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


@contextmanager
def told_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise `Stopped`, so that a command ends as by Ctrl-C, unless they are ignored."""
    owner = os.getpid()

    def stop(number: int, _: object) -> None:
        if os.getpid() != owner:  # a worker that was forked ends as it always did
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise Stopped(signal.Signals(number))

    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    in_main_thread = threading.current_thread() is threading.main_thread()  # only there may handlers be set
    before = {each: signal.getsignal(each) for each in wanted if in_main_thread}
    for each, handler in before.items():
        if handler == signal.SIG_DFL:
            signal.signal(each, stop)
    try:
        yield
    finally:
        for each, handler in before.items():
            if handler == signal.SIG_DFL:
                signal.signal(each, handler)


MISTAKE, BUG = 2, 70
"""Exit statuses: of a user's mistake or what the machine lacks, and of a mistake in trevision."""


def told(error: Exception) -> tuple[str, int]:
    """One line about an error, and the exit status: `BUG` for what no argument or file should cause."""
    said = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno in NO_ROOM:  # a DiskFull has no number
        safe = f"{SAFE[0].upper()}{SAFE[1:]} (TMPDIR names the folder of temporary files)"
        return f"{said}: a disk is full. {safe}", MISTAKE
    lacking = missing_extra(error) if isinstance(error, ImportError) else None
    if lacking is not None or is_expected(error):
        return lacking or said or type(error).__name__, MISTAKE
    if isinstance(error, MemoryError):
        return "this needs more memory than there is; use fewer rows, or a machine with more", MISTAKE
    file, line = raised_in(error)
    return (
        f"this is a bug in trevision, not a mistake of yours: {type(error).__name__}: {said} ({file}, line "
        f"{line}); please report it to those who gave you trevision, with the command and what it prints "
        "after `export TREVISION_TRACEBACK=1`",
        BUG,
    )


def is_expected(error: Exception) -> bool:
    """Whether an error is one that a user's argument or file, or the machine, can cause.

    A ValueError counts if this package raised it. Those of other libraries should have been translated.
    """
    if isinstance(error, TrevisionError | OSError):
        return True
    if isinstance(error, RuntimeError):  # of torch, for what a device lacks
        return not isinstance(error, RecursionError | NotImplementedError)
    return isinstance(error, ValueError) and Path(__file__).parents[1] in Path(raised_in(error)[0]).parents


def raised_in(error: Exception) -> tuple[str, int]:
    """The file and the line that an error was raised in."""
    frame, line = list(traceback.walk_tb(error.__traceback__))[-1]
    return frame.f_code.co_filename, line


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
        raise TrevisionError(f"the command must be one of {', '.join(COMMANDS)}, {got}; see trevision --help")


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
            "COMMAND --help lists its flags; --print-completion bash (zsh, tcsh) completes.",
        ]
    )
