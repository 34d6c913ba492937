"""Mutations that know what they mutate: numbers, quoted strings, brackets and lines of a text;
values of a JSON document.

Everything follows from a ``random.Random``: the same seed gives the same inputs on every machine.
"""

from __future__ import annotations

import bz2
import copy
import gzip
import json
import lzma
import random
import re
from typing import Any

NUMBERS = (
    b"0",
    b"-0",
    b"-1",
    b"1",
    b"2147483648",
    b"9223372036854775808",
    b"1e308",
    b"1.7e308",
    b"-1e308",
    b"1e-320",
    b"1e999",
    b"NaN",
    b"nan",
    b"Infinity",
    b"-Infinity",
    b"inf",
    b"0x10",
    b"1_000",
    b"007",
    b"1.",
    b".5",
    b"9" * 400,
    b"9" * 4300,
    b"9" * 4301,
    b"\xd9\xa3",
    b"\xc2\xb2",
    b"4102444800",
    b"253402300800",
    b"199999",
    b"1000000",
)
STRINGS = (
    b"",
    b" ",
    b"\\u0000",
    b"\0",
    b"\x1b[2J",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\x0c",
    b"\xe2\x80\xae",
    b"\xff\xfe",
    b"\xf0\x9f\x92\xa9",
    b"\\ud800",
    b"a" * 300,
    b"../../x",
    b"/dev/zero",
    b"os:system",
    b"__class__",
    b"n[1-199999]",
    b"n[1-9][1-9][1-9][1-9]",
    b"n[3-1]",
    b"n[1-",
    b"]n[",
    b"*",
    b"*" * 40,
    b"%s%n",
    b"{}",
    b"None",
    b"null",
    b"true",
    b"Unknown",
    b"(null)",
    b"INVALID",
    b"2026-02-30T00:00:00",
    b"0001-01-01T00:00:00",
    b"9999-12-31T23:59:59",
    b"2021-02-10T00:00:00+23:59",
    b"2021-02-10T00:00:00-24:00",
    b"JobId=",
    b"NodeName=x",
    b"$",
    b"$enum",
    b"$set",
    b"$map",
)
PUNCTUATION = (
    b"|",
    b";",
    b",",
    b":",
    b"=",
    b"\n",
    b"\r",
    b"\r\n",
    b'"',
    b"'",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"<",
    b">",
    b"#",
    b"\\",
    b"\t",
    b" ",
    b".",
    b"+",
    b"/",
    b"\0",
    b"-",
    b'"""',
    b"'''",
    b"[[",
    b"]]",
)
_TOKEN = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\"[^\"\n]{0,80}\"|[A-Za-z_][\w.-]*|[^\w\s]")
_LONGEST = 400_000


def mutated(rng: random.Random, sample: bytes, others: tuple[bytes, ...], is_json: bool) -> bytes:
    """One hostile variant of a sample; ``others`` are samples to splice from."""
    if rng.random() < 0.02:
        return _packed(rng, sample)
    if is_json and rng.random() < 0.6 and (changed := _json(rng, sample)) is not None:
        return changed if rng.random() < 0.8 else _text(rng, changed, others)
    return _text(rng, sample, others)


def _text(rng: random.Random, sample: bytes, others: tuple[bytes, ...]) -> bytes:
    data = sample
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        data = rng.choice(_MUTATIONS)(rng, data, others)[:_LONGEST]
    return data


def _a_token(rng: random.Random, data: bytes) -> tuple[int, int]:
    """A token near a random place; only a part of long data is searched."""
    at = rng.randrange(len(data) + 1)
    window = [
        found.span() for found in _TOKEN.finditer(data, max(0, at - 200), min(len(data), at + 400))
    ]
    return rng.choice(window) if window else (at, at)


def _token(rng: random.Random, data: bytes, others: tuple[bytes, ...]) -> bytes:
    """Another number for a number, another string for a string or a word, another mark for a
    mark.
    """
    begin, end = _a_token(rng, data)
    found = data[begin:end]
    if found[:1].isdigit() or found[:1] == b"-":
        new = rng.choice(NUMBERS)
        if rng.random() < 0.3 and found.isdigit():
            new = str(
                max(int(found[:18]) + rng.choice((-1, 1, 10, -10, 10**6, -(10**6))), 0)
            ).encode()
    elif found[:1] == b'"':
        new = b'"' + rng.choice(STRINGS) + b'"'
    elif found[:1].isalpha():
        new = rng.choice(STRINGS) if rng.random() < 0.5 else _other_token(rng, data)
    else:
        new = rng.choice(PUNCTUATION)
    return data[:begin] + new + data[end:]


def _other_token(rng: random.Random, data: bytes) -> bytes:
    begin, end = _a_token(rng, data)
    return data[begin:end]


def _swap_tokens(rng: random.Random, data: bytes, others: tuple[bytes, ...]) -> bytes:
    begin, end = _a_token(rng, data)
    return data[:begin] + _other_token(rng, data) + data[end:]


def _lines(rng: random.Random, data: bytes, others: tuple[bytes, ...]) -> bytes:
    """Lines lost, repeated, swapped, joined."""
    lines = data.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case 2:
            lines[one], lines[other] = lines[other], lines[one]
        case 3:
            lines[one] = lines[one] + lines[other]
        case _:
            lines[one:one] = [lines[other]] * rng.choice((2, 20, 200))
    return b"\n".join(lines)


def _bytes(rng: random.Random, data: bytes, others: tuple[bytes, ...]) -> bytes:
    at = rng.randrange(len(data) + 1)
    match rng.randrange(5):
        case 0:
            return data[:at] + rng.randbytes(rng.randrange(1, 5)) + data[at + rng.randrange(4) :]
        case 1:
            return data[:at] + data[at + rng.randrange(1, 60) :]
        case 2:
            return data[:at]
        case 3:
            return data[:at] + rng.choice(STRINGS + PUNCTUATION) + data[at:]
        case _:
            flipped = bytearray(data or b"\0")
            flipped[at % len(flipped)] ^= 1 << rng.randrange(8)
            return bytes(flipped)


def _splice(rng: random.Random, data: bytes, others: tuple[bytes, ...]) -> bytes:
    other = rng.choice(others)
    begin, end = sorted((rng.randrange(len(other) + 1), rng.randrange(len(other) + 1)))
    at = rng.randrange(len(data) + 1)
    return data[:at] + other[begin : min(end, begin + 2000)] + data[at:]


def _nest(rng: random.Random, data: bytes, others: tuple[bytes, ...]) -> bytes:
    """A part of the text repeated, or wrapped in many brackets: depth and length."""
    begin, end = _a_token(rng, data)
    times = rng.choice((3, 30, 300, 3000, 30_000))
    if rng.random() < 0.5:
        left, right = rng.choice(
            (
                (b"[", b"]"),
                (b"{", b"}"),
                (b"(", b")"),
                (b'{"a":', b"}"),
                (b"{a=", b"}"),
                (b"a.", b""),
            )
        )
        return data[:begin] + left * times + data[begin:end] + right * times + data[end:]
    return (
        data[:begin]
        + (data[begin:end] + rng.choice((b"", b",", b".", b" "))) * min(times, 3000)
        + data[end:]
    )


_MUTATIONS = (_token, _token, _token, _token, _swap_tokens, _lines, _bytes, _bytes, _splice, _nest)


def _packed(rng: random.Random, sample: bytes) -> bytes:
    """Compressed, and then damaged or not."""
    packed = rng.choice((gzip.compress, bz2.compress, lzma.compress))(sample)
    return packed if rng.random() < 0.3 else _bytes(rng, packed, (sample,))


# JSON: values and keys of a parsed document

_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63),
    10**18,
    10**400,
    1e308,
    -1e308,
    1e-320,
    float("nan"),
    float("inf"),
    0.5,
    "",
    " ",
    "\0",
    "a",
    "1",
    "\x1b[2J",
    "\u2028",
    "\ud800",
    "n[1-199999]",
    "NaN",
    "x" * 3000,
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    {"$": "Event"},
    {"$": 1},
    {"$set": [[]]},
    {"$set": 1},
    {"$map": [[1]]},
    {"$map": {}},
    {"$enum": "Reason", "name": "X"},
    {"$enum": []},
    {"set": True, "infinite": False, "number": 10**30},
    {"number": "x"},
)


def _json(rng: random.Random, sample: bytes) -> bytes | None:
    """A JSON document, or a line of several, with some values or keys changed; None where the
    sample is neither.
    """
    lines = sample.split(b"\n")
    is_lines = len(lines) > 2 and lines[0][:1] == b"{" and lines[0][-1:] == b"}"
    at = rng.randrange(len(lines) - 1) if is_lines else 0
    try:
        document = json.loads(lines[at] if is_lines else sample)
    except ValueError:
        return None
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        document = _changed(rng, document)
    try:
        text = json.dumps(document).encode()
    except (ValueError, RecursionError):
        return None
    if is_lines:
        lines[at] = text
        return b"\n".join(lines)
    return text


def _changed(rng: random.Random, document: Any) -> Any:
    places: list[tuple[Any, Any]] = []
    stack = [document]
    while stack and len(places) < 5000:
        value = stack.pop()
        items = (
            list(value.items())
            if isinstance(value, dict)
            else list(enumerate(value))
            if isinstance(value, list)
            else []
        )
        places += [(value, key) for key, _ in items]
        stack += [inner for _, inner in items]
    if not places or rng.random() < 0.02:
        return _a_value(rng)
    holder, key = rng.choice(places)
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[str(_a_value(rng))] = holder.pop(key)
        case 2:
            other, its = rng.choice(places)
            try:
                holder[key] = json.loads(json.dumps(other[its]))
            except (KeyError, IndexError, ValueError, RecursionError):
                holder[key] = None
        case 3:
            for _ in range(rng.choice((2, 50, 900))):
                holder[key] = [holder[key]]
        case 4 if isinstance(holder[key], list) and holder[key]:
            holder[key] = holder[key] * rng.choice((2, 50))
        case 5 if isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] = rng.choice(
                (
                    -holder[key],
                    holder[key] * 10**6,
                    holder[key] + 1,
                    str(holder[key]),
                    [holder[key]],
                )
            )
        case _:
            holder[key] = _a_value(rng)
    return document


def _a_value(rng: random.Random) -> Any:
    """A copy: later mutations may change it."""
    return copy.deepcopy(rng.choice(_VALUES))
