"""Values of a source as a person would write them: no 17 digits, no midnight after a date."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any

SIGNIFICANT = 6
"""The digits of a long fraction that are shown."""
SMALLEST = 1e-4
_LONG = re.compile(r"-?\d+\.\d{7,}(?:[eE][+-]?\d+)?|-?\d+\.0+|-?\d(?:\.\d+)?[eE][+-]?\d+")
_MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d)[ T]00:00:00(?:\.0+)?(?:Z|\+00:00)?")
_FRACTION_OF_SECOND = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)\.0+")


def shown(value: Any) -> str:
    """A value of a table as text.

    >>> [shown(value) for value in (0.30000000000000004, 2.0, "007", "2024-01-31 00:00:00")]
    ['0.3', '2', '007', '2024-01-31']
    """
    if value is None:
        return ""
    if isinstance(value, datetime.datetime | datetime.date):
        value = value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else value.isoformat()
    if isinstance(value, float | decimal.Decimal):
        return _number(float(value))
    text = str(value)
    if len(text) > 40:  # neither number nor date
        return text
    if _LONG.fullmatch(text):
        return _number(float(text))
    if midnight := _MIDNIGHT.fullmatch(text):
        return midnight[1]
    if precise := _FRACTION_OF_SECOND.fullmatch(text):
        return f"{precise[1]} {precise[2]}"
    return text


def _number(value: float) -> str:
    if value != value:
        return ""
    if value and (abs(value) < SMALLEST or abs(value) >= 1e15):
        return f"{value:.3g}"
    whole = len(str(int(abs(value))))
    text = f"{value:.{max(0, SIGNIFICANT - whole + (abs(value) < 1))}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
