"""How much memory and disk one file of a user may ask for; docs/promises.md states the same numbers.

A file that was made to harm can claim to hold a thousand times its size. No decoder sets memory aside for a
claim before it is compared with one of these budgets, or with the size of the file itself.
"""

from __future__ import annotations

from pathlib import Path

from trevision.files import TooLarge

MB = 2**20

UNPACKED_BYTES = 256 * MB
"""What a compressed file may always unpack to (.gz, .npz, .skops, a zip of labels)."""
UNPACKED_TIMES = 100
"""A larger one may unpack to this many times its own size."""
DECODED_TABLE_TIMES = 1000
"""The values of a .parquet file, 8 bytes each, may take as many bytes as this times its size."""
PICTURE_BYTES = 256 * MB
"""What the pixels of one picture may take: 4 bytes each, or 16 where a channel has more than 8 bits."""
ARRAY_HEADER_BYTES = 4096
"""The longest header of an array in an .npy or .npz file."""
CSV_HEADER_BYTES = MB
"""The longest header of a .csv file."""
CSV_COLUMNS = 20_000
"""The most columns of a table."""


def unpacked_budget(packed: int) -> int:
    """The bytes that a compressed file of `packed` bytes may unpack to."""
    return max(UNPACKED_BYTES, UNPACKED_TIMES * packed)


def check_unpacked(path: Path, claimed: int, packed: int) -> None:
    """Raise a `TooLarge` for a file of `packed` bytes that would unpack to more than its budget."""
    budget = unpacked_budget(packed)
    if claimed > budget:
        raise TooLarge(
            f"{path}: {packed:,} bytes that unpack to {claimed:,}, more than the {budget:,} that are allowed "
            f"({UNPACKED_TIMES} times its size); if you trust it, unpack it first, and give it uncompressed",
            path=path,
        )
