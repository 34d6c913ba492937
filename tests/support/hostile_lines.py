"""Lines that a careless or hostile script may write: none of them may reach a decision, the
registry or a terminal.
"""

from __future__ import annotations

import json

DIGITS_400 = "9" * 400
_GOOD = {
    "time": 5.0,
    "phase": "running",
    "incarnation": 1,
    "world_size": 1,
    "step": 3,
    "samples": 7,
    "loss": 0.5,
}


def progress(**changed: object) -> str:
    """A line of ``progress.jsonl``; a value that is a string beginning with ``raw:`` stands in it
    as it is.
    """
    return line(_GOOD | changed)


def line(found: dict[str, object]) -> str:
    parts = (f"{json.dumps(key)}: {_written(value)}" for key, value in found.items())
    return "{" + ", ".join(parts) + "}"


def _written(value: object) -> str:
    return value[4:] if isinstance(value, str) and value.startswith("raw:") else json.dumps(value)


DEEP = "[" * 20_000 + "]" * 20_000
VALUES = {
    "nan": "raw:NaN",
    "infinity": "raw:Infinity",
    "minus infinity": "raw:-Infinity",
    "1e999": "raw:1e999",
    "400 digits": f"raw:{DIGITS_400}",
    "5000 digits": "raw:" + "9" * 5000,
    "boolean": True,
    "text": "7",
    "list": [7],
    "object": {},
    "negative": -1,
    "beyond any bound": 1e29,
    "deep": f"raw:{DEEP}",
    "surrogate": 'raw:"\\ud800"',
    "escape": "\x1b[31m\n",
}
"""Values where a number is expected."""
NOT_LINES = {
    "deep": DEEP.encode(),
    "not UTF-8": b'{"time": 5.0, "samples": "\xff\xfe"}',
    "torn": b'{"time": 5.0, "sam',
    "list": b"[1]",
    "text": b'"x"',
    "nothing": b"\0" * 100,
    "long": b'{"x": "' + b"y" * (3 << 20) + b'"}',
    "carriage returns": b"\r\r\r",
}
EVENTS: dict[str, dict[str, object]] = {
    "started": {"driver": "restart", "pid": 1},
    "warming": {"host": "n1", "fragment": "1"},
    "warm": {"host": "n1", "fragment": "1"},
    "warming_canceled": {"host": "n1", "fragment": "1"},
    "worker_started": {"host": "n1", "fragment": "1", "slot": 0, "pid": 1, "log": "l"},
    "worker_exited": {
        "host": "n1",
        "fragment": "1",
        "slot": 0,
        "pid": 1,
        "status": 0,
        "planned": True,
    },
    "withheld": {"host": "n1", "fragment": "1", "reason": "r"},
    "running": {"world_size": 1, "fragments": ["1"]},
    "hung": {"host": "n1", "fragment": "1", "silent_s": 1.0},
    "stopping": {"reason": "r"},
    "stopped": {"reason": "r", "checkpointed": True},
    "done": {},
    "failed": {"reason": "r", "status": 1, "tail": ["t"]},
}
"""Every event with every key."""


def events() -> list[tuple[str, str]]:
    """(what is wrong, line) for every key of every event."""
    found = [
        ("event", line({"time": 5.0, "event": value, "incarnation": 1}))
        for value in VALUES.values()
    ]
    for word, keys in EVENTS.items():
        whole = {"time": 5.0, "event": word, "incarnation": 1, **keys}
        for key in whole:
            if key != "event":
                found += [
                    (f"{word}.{key}: {name}", line(whole | {key: value}))
                    for name, value in VALUES.items()
                ]
                found.append(
                    (f"{word}.{key}: missing", line({k: v for k, v in whole.items() if k != key}))
                )
    return found
