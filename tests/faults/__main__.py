"""Disturb commands in every way that we know, and look at what is left: `make test-long`.

Prints a line for each kind of fault: how many were tried, how many of them met a command at work, and how
many were survived: the command ended in one clear line, nothing that was finished was lost, and the same
command then gave the same bits as if nothing had happened. The exit status is 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import resource
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "COLUMNS": "200"}

from faults.commands import COMMANDS
from faults.kinds import Place, Tally, planned

NEEDED = ("fit", "issues", "report", "apply", "audit", "reproduce")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--others", type=float, default=1.0, help="how often the other faults, as a multiple")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", help="only faults whose kind contains one of these")
    parser.add_argument("--quick", action="store_true", help="without grids")
    chosen = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trevision-faults-") as scratch:
        os.environ["XDG_CACHE_HOME"] = str(Path(scratch) / "cache")
        for name in NEEDED:
            import_module(f"trevision.cli.{name}")
        for name in ("trevision.runs.run", "trevision.runs.model_run", "trevision.report.page", "torch"):
            import_module(name)
        places: dict[str, Place] = {}
        tallies: list[Tally] = []
        wanted = [
            each
            for each in planned(chosen.kills, chosen.others, not chosen.quick)
            if chosen.kinds is None or any(kind in each[0] for kind in chosen.kinds)
        ]
        print(f"{'kind of fault':<28} {'tried':>6} {'at work':>8} {'survived':>9} {'lost':>5}", flush=True)
        for kind, faults in itertools.groupby(wanted, key=lambda each: each[0]):
            tally = Tally(kind)
            for number, (_, fault, name) in enumerate(faults):
                if name not in places:
                    places[name] = Place(COMMANDS[name], Path(scratch))
                fault(places[name], random.Random(f"{chosen.seed} {kind} {number}"), tally)
            print(
                f"{kind:<28} {tally.tried:>6} {tally.hit:>8} {tally.survived:>9} {len(tally.lost):>5}",
                flush=True,
            )
            for line in tally.lost:
                print(f"   {line}", flush=True)
            tallies.append(tally)
    lost = sum(len(tally.lost) for tally in tallies)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{sum(tally.tried for tally in tallies)} faults in {(time.monotonic() - began) / 60:.0f} minutes "
        f"({(used.ru_utime + used.ru_stime) / 60:.0f} of the processor), {lost} lost"
    )
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
