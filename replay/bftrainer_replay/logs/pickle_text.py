"""Reads a pickle as data: names stay names, calls stay descriptions of calls, so nothing of it is ever executed.

:mod:`pickle` runs what a file tells it to. This reads the opcodes with :func:`pickletools.genops` and builds plain values;
where a pickle would look up a class or call it, a :class:`Name` or a :class:`Call` stands instead. Opcodes that pickles of
tables do not need are refused.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass
from typing import IO, Any, Protocol, cast


@dataclass(frozen=True, slots=True)
class Name:
    """A class or function that the pickle names, like ``numpy.ndarray``. It is not looked up."""

    dotted: str


@dataclass(slots=True)
class Call:
    """A call that the pickle asks for, and the state it would set on the result. It is not made."""

    what: Any
    arguments: Any
    state: Any = None


class PickleError(ValueError):
    """The bytes are no pickle of a table."""


_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict}
_LITERAL_WORDS = (
    "BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 "
    "BINSTRING SHORT_BINSTRING"
)
_LITERALS = frozenset(_LITERAL_WORDS.split())
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Readable(Protocol):
    """What is needed of a file."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes."""
        ...

    def readline(self) -> bytes:
        """A line."""
        ...


def load(file: Readable) -> Any:
    """The pickled value; raises :class:`PickleError` for anything that is no plain pickle."""
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(cast("IO[bytes]", file)):
            if opcode.name == "STOP":
                return machine.stack.pop()
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
        """One opcode."""
        stack = self.stack
        if name in _LITERALS:
            stack.append(argument)
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in ("PROTO", "FRAME"):
            pass
        else:
            self._build(name, argument)

    def _build(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _TUPLES:
            count = _TUPLES[name]
            items = stack[-count:]
            if len(items) < count:
                raise PickleError("the pickle is damaged (a tuple without its items)")
            stack[-count:] = [tuple(items)]
        elif name == "TUPLE":
            stack.append(tuple(self._to_mark()))
        elif name == "APPEND":
            item = stack.pop()
            self._top(list).append(item)
        elif name == "APPENDS":
            items = self._to_mark()
            self._top(list).extend(items)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            self._top(dict)[key] = value
        elif name == "SETITEMS":
            items = self._to_mark()
            self._top(dict).update(zip(items[::2], items[1::2], strict=True))
        elif name == "GLOBAL":
            stack.append(Name(str(argument).replace(" ", ".")))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(Name(f"{module}.{attribute}"))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments, what = stack.pop(), stack.pop()
            stack.append(Call(what, arguments))
        elif name == "BUILD":
            state = stack.pop()
            self._top(Call).state = state
        else:
            raise PickleError(f"the pickle uses {name}, which no table needs")

    def _to_mark(self) -> list[Any]:
        items: list[Any] = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _top(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise PickleError(f"the pickle is damaged (a {kind.__name__.lower()} is missing)")
        return self.stack[-1]
