"""Values worked out from others, five times a second for thousands of nodes, but only when there is
something new.

This is the only such mechanism in the pilot. A caller need not know when a derived value was
computed: the value is always that of the function for the present arguments. Two rules make that
true: arguments are compared by value, and they are frozen. A collection that changes
(:class:`Table`) takes part by its frozen snapshots.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")


class Memoized(Generic[P, T]):
    """A pure function that remembers its last call. Called with equal (frozen) arguments, it
    returns the same object.

    If other arguments give an equal value, the old object is returned as well, so that values
    derived from it need not be computed again either. Comparing costs little where nothing changed:
    Python compares an object with itself in no time.
    """

    __slots__ = ("_arguments", "_function", "_value")

    def __init__(self, function: Callable[P, T]) -> None:
        """Remember the last call of ``function``, which must be pure."""
        self._function = function
        self._arguments: tuple[object, ...] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the value of the function for these arguments, computed only if they differ from
        the last.
        """
        assert not kwargs, "positional arguments only"
        if args != self._arguments:
            value = self._function(*args, **kwargs)
            if self._arguments is None or value != self._value:
                self._value: T = value
            self._arguments = args
        return self._value


class Table(UserDict[str, V]):
    """Frozen values by name, in the order in which the names came; with snapshots that functions
    may keep.
    """

    _snapshot: tuple[V, ...] | None = ()

    def __setitem__(self, name: str, value: V) -> None:
        super().__setitem__(name, value)
        self._snapshot = None

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._snapshot = None

    def snapshot(self) -> tuple[V, ...]:
        """All values, frozen: the same tuple until the table changes."""
        if self._snapshot is None:
            self._snapshot = tuple(self.data.values())
        return self._snapshot
