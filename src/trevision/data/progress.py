"""How reading and downloading report their progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, "int | None"], None]
"""Called with what is done and the total (None: not known); 0 starts a new file."""
