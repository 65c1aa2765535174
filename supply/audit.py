"""Ask whether advisories are known for the pinned versions: `make audit`.

pip-audit asks the Python Package Index. What it could not ask is told, never passed over: pip-audit itself
ends well when it has skipped everything. The exit status is 1 if there is an advisory, and 3 if some packages
could not be looked up.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

PINNED = Path(__file__).parents[1] / "constraints.txt"


def answers(pinned: Path) -> list[dict[str, object]]:
    """What pip-audit says of each package; all of them without an answer if it cannot ask at all."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        words = ["--requirement", str(pinned), "--no-deps", "--disable-pip", "--timeout", "15"]
        command = [sys.executable, "-m", "pip_audit", *words, "--format", "json", "--output", str(report)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if report.exists():
            found: list[dict[str, object]] = json.loads(report.read_text())["dependencies"]
            return found
    last = (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1][:200]
    return [{"name": name, "skip_reason": last} for name in versions(pinned)]


def versions(pinned: Path) -> dict[str, str]:
    """The pinned version of each package, by its canonical name."""
    found = re.findall(r"^([\w.-]+)==(\S+)", pinned.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def main() -> int:
    found = answers(PINNED)
    known = [each for each in found if each.get("vulns")]
    skipped = [each for each in found if "skip_reason" in each]
    day = datetime.now(UTC).date()
    asked = len(found) - len(skipped)
    print(f"{day}: {asked} of {len(found)} pinned packages were looked up, {len(known)} with advisories")
    for each in known:
        for one in each["vulns"]:  # type: ignore[attr-defined]
            mended = ", ".join(one["fix_versions"]) or "none yet"
            print(f"   {each['name']} {each['version']}: {one['id']}, mended in {mended}")
    if skipped:
        print(f"of {len(skipped)} packages no advisories could be looked up ({skipped[0]['skip_reason']}):")
        pinned_versions = versions(PINNED)
        print("   " + ", ".join(f"{each['name']} {pinned_versions[str(each['name'])]}" for each in skipped))
    return 1 if known else 3 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
