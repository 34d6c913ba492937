"""Reads a pickle as data: names stay names, calls stay descriptions of calls, so nothing in it is ever executed.

Opcodes come from :func:`pickletools.genops`. Where a pickle looks up a class or calls it, a :class:`PickledName` or a
:class:`PickledCall` stands instead. Opcodes that pickles of tables do not need are rejected.

``pickle.Unpickler`` with a harmless ``find_class`` does not execute anything either, but it cannot be bounded (tried with
CPython 3.11): it hashes whatever stands as a dictionary key, so a 200 kB pickle of nested tuples overflows the C stack and a
300-byte pickle of shared tuples never ends; and an index into its memo is an allocation (9 bytes ask for 16 GB).
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass
from typing import IO, Any, Protocol, cast


@dataclass(frozen=True, slots=True)
class PickledName:
    """A class or function that the pickle names, like ``numpy.ndarray``. It is not looked up."""

    dotted: str


@dataclass(slots=True)
class PickledCall:
    """A call that the pickle asks for, and the state it would set on the result. It is not made."""

    what: Any
    arguments: Any
    state: Any = None


class PickleError(ValueError):
    """The bytes are not a pickle of a table."""


class Readable(Protocol):
    """The part of a file that :func:`load` needs."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self) -> bytes: ...


_MARK = object()
_LITERAL_WORDS = (
    "BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 "
    "BINSTRING SHORT_BINSTRING"
)
_LITERALS = frozenset(_LITERAL_WORDS.split())
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (), "MARK": _MARK}
MOST_OPCODES = 1_000_000
"""A table of 158,976 nodes has two for each name. Every opcode may make an object, which takes up to 100 times its bytes."""
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def load(file: Readable) -> Any:
    """The pickled value; raises :class:`PickleError` for anything that is not a plain pickle."""
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(cast("IO[bytes]", file))):
            if opcode.name == "STOP":
                return machine.stack.pop()
            if count >= MOST_OPCODES:
                raise PickleError(f"the pickle has more than {MOST_OPCODES:,} opcodes")
            machine.step(opcode.name, argument)
    except PickleError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError, EOFError) as error:
        raise PickleError(f"the pickle is damaged or truncated ({type(error).__name__})") from error
    raise PickleError("the pickle has no end")


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            self._memo[len(self._memo) if argument is None else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name in _TUPLES:
            items = stack[-_TUPLES[name] :]
            if len(items) < _TUPLES[name]:
                raise PickleError("the pickle is damaged (a tuple without its items)")
            stack[-len(items) :] = [tuple(items)]
        elif name == "TUPLE":
            stack.append(tuple(self._to_mark()))
        elif name in ("APPEND", "APPENDS"):
            items = [stack.pop()] if name == "APPEND" else self._to_mark()
            self._top(list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = [stack.pop(), stack.pop()][::-1] if name == "SETITEM" else self._to_mark()
            self._set(self._top(dict), items)
        elif name == "GLOBAL":
            stack.append(PickledName(str(argument).replace(" ", ".")))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            if not (isinstance(attribute, str) and isinstance(module, str)):
                raise PickleError("the pickle is damaged (a name is not text)")
            stack.append(PickledName(f"{module}.{attribute}"))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments, what = stack.pop(), stack.pop()
            stack.append(PickledCall(what, arguments))
        elif name == "BUILD":
            state = stack.pop()
            self._top(PickledCall).state = state
        elif name not in ("PROTO", "FRAME"):
            raise PickleError(f"the pickle uses {name}, which no table needs")

    def _set(self, table: dict[str, Any], items: list[Any]) -> None:
        """Only text may be a key: to hash a nested tuple may take forever, or overflow the stack."""
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):
                raise PickleError(f"the pickle has a {type(key).__name__} as a key, expected text")
            table[key] = value

    def _to_mark(self) -> list[Any]:
        items: list[Any] = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _top(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise PickleError(f"the pickle is damaged (a {kind.__name__.lower()} is missing)")
        return self.stack[-1]
