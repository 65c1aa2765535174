"""Changes to valid files: of their bytes, their headers and their structure."""

from __future__ import annotations

import gzip
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable

from fuzz.readers import json_places, rezipped, with_value

NUMBERS = (0, 1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
STRANGE = (
    None,
    True,
    -1,
    0,
    1e300,
    2**62,
    "x",
    "",
    "a\0b",
    "\ud800",
    [],
    [1],
    [[]],
    {},
    [{}],
    {"a": 1},
    "é" * 300,
)
CELLS = (
    "",
    '"',
    '""',
    "nan",
    "inf",
    "-1e999",
    "=1+1",
    "\0",
    "9" * 5000,
    "\r",
    "\n",
    "0001-01-01",
    "é",
    "1" * 40,
)
DTYPES = (
    "<U0",
    "|O",
    "<f8",
    ">f8",
    "|S0",
    "<U99999999",
    "<i8",
    "|b1",
    "<M8[ns]",
    "<c16",
    "V8",
    "<f3",
    "|u1",
    "<U1",
)


def mutated(content: bytes, name: str, rng: random.Random) -> bytes:
    """The content with one to four changes that suit its kind."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        content = _change(content, name, rng)
    return content


def _change(content: bytes, name: str, rng: random.Random) -> bytes:
    kinds: list[Callable[[bytes, str, random.Random], bytes]] = [of_bytes, of_bytes]
    if content[:4] == b"PK\x03\x04":
        kinds += [of_archive] * 3
    if content[:2] == b"\x1f\x8b":
        kinds += [of_gzip] * 2
    if content[:6] == b"\x93NUMPY":
        kinds += [of_array] * 3
    if name.endswith((".json", ".jsonl")):
        kinds += [of_json] * 6
    if name.endswith(".csv"):
        kinds += [of_csv] * 4
    if name.endswith(".safetensors"):
        kinds += [of_safetensors] * 4
    try:
        return rng.choice(kinds)(content, name, rng)
    except Exception:  # what was changed before has no structure any more
        return of_bytes(content, name, rng)


def of_bytes(content: bytes, _: str, rng: random.Random) -> bytes:
    if not content:
        return bytes(rng.randrange(256) for _ in range(8))
    # Headers and footers are the parts that are believed.
    near = rng.choice((len(content), min(len(content), 64), min(len(content), 512)))
    at = rng.randrange(near) if rng.random() < 0.7 else len(content) - 1 - rng.randrange(near)
    kind = rng.randrange(8)
    if kind == 0:
        return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
    if kind == 1:
        return content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
    if kind == 2:
        return content[:at]
    if kind == 3:
        return content[:at] + content[at + rng.randrange(1, 64) :]
    if kind == 4:
        part = content[at : at + rng.randrange(1, 64)]
        return content[:at] + part * rng.choice((2, 3, 50)) + content[at:]
    if kind == 5:
        form, number = rng.choice(("<I", ">I", "<Q", ">Q", "<H", ">H", "B")), rng.choice(NUMBERS)
        raw = struct.pack(form, number % 2 ** (8 * struct.calcsize(form)))
        return content[:at] + raw + content[at + len(raw) :]
    if kind == 6:
        return content[:at] + bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9))) + content[at:]
    other = rng.randrange(len(content))
    return content[:at] + content[other : other + rng.randrange(1, 200)] + content[at:]


def of_archive(content: bytes, _: str, rng: random.Random) -> bytes:
    with_names = zipfile.ZIP_DEFLATED if rng.random() < 0.5 else zipfile.ZIP_STORED
    pick = rng.random()

    def change(name: str, member: bytes) -> bytes:
        known = ".json" if name.endswith("json") else name
        return _change(member, known, rng) if rng.random() < pick + 0.3 else member

    return rezipped(content, change, with_names)


def of_gzip(content: bytes, name: str, rng: random.Random) -> bytes:
    return gzip.compress(_change(gzip.decompress(content), name.removesuffix(".gz"), rng))


def of_array(content: bytes, _: str, rng: random.Random) -> bytes:
    length = int.from_bytes(content[8:10], "little")
    header, values = content[10 : 10 + length].decode("latin-1"), content[10 + length :]
    kind = rng.randrange(4)
    if kind == 0:
        header = re.sub(r"'descr': '[^']*'", f"'descr': '{rng.choice(DTYPES)}'", header)
    elif kind == 1:
        axes = ", ".join(str(rng.choice((-1, 0, 1, 2, 3, 24, *NUMBERS))) for _ in range(rng.randrange(4)))
        header = re.sub(r"\([^)]*\)", f"({axes},)" if axes else "()", header)
    elif kind == 2:
        header = header.replace("False", rng.choice(("True", "1", "None", "F")))
    else:
        header = of_bytes(header.encode("latin-1"), "", rng).decode("latin-1")
    raw = header.encode("latin-1")[:65535]
    return content[:8] + struct.pack("<H", len(raw)) + raw + values


def of_json(content: bytes, _: str, rng: random.Random) -> bytes:
    lines = (
        content.decode().splitlines() if content[:1] == b"{" and b"}\n{" in content else [content.decode()]
    )
    at = rng.randrange(len(lines))
    if rng.random() < 0.1:
        lines[at] = re.sub(
            r"\d+", rng.choice(("Infinity", "NaN", "1e999", "9" * 5000, "[" * 5000)), lines[at], count=1
        )
    else:
        lines[at] = with_value(lines[at], rng.choice(json_places(json.loads(lines[at]))), rng.choice(STRANGE))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def of_csv(content: bytes, _: str, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    at = 0 if rng.random() < 0.3 else rng.randrange(len(lines))
    cells = lines[at].split(b",")
    kind = rng.randrange(5)
    if kind == 0:
        cells[rng.randrange(len(cells))] = rng.choice(CELLS).encode()
    elif kind == 1:
        cells.append(rng.choice(CELLS).encode())
    elif kind == 2:
        cells.pop()
    elif kind == 3:
        cells = cells * rng.choice((2, 100, 2000))
    else:
        column = rng.randrange(len(cells))
        value = rng.choice(CELLS).encode()
        for number in range(1, len(lines)):
            row = lines[number].split(b",")
            if column < len(row):
                row[column] = value
                lines[number] = b",".join(row)
        return b"\n".join(lines)
    lines[at] = b",".join(cells)
    return b"\n".join(lines)


def of_safetensors(content: bytes, name: str, rng: random.Random) -> bytes:
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length].decode()
    places = json_places(json.loads(header))
    news = (*STRANGE, "F16", "BF16", "F64", "I64", "BOOL", [2], [1, 1], [2**40], [0, 8])
    new = with_value(header, rng.choice(places), rng.choice(news)).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(new)) + new + content[8 + length :]
