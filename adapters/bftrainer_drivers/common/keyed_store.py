"""Runs in a worker of the launcher ``restart``: a group of torch that its program forms meets at
the driver's store, which has a key, and not at a port of rank 0, which has none.

A program of this launcher may form a group of torch, of another library, or none. So nothing is
imported and no relay is started before the program itself calls ``init_process_group`` with the
variables of its environment (``env://``). MASTER_ADDR and MASTER_PORT stay as they are for other
libraries. Only the standard library is used, of Python 3.9 and later, and torch.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

KEYED_STORE = "BFTRAINER_KEYED_STORE"
"""The variable with the place of the driver's store, ``host:port:key``, or with the reason why
there is none, after ``NO_STORE``.
"""
NO_STORE = "!"
_RENDEZVOUS = "torch.distributed.rendezvous"
_MEETING = ("MASTER_ADDR", "MASTER_PORT")
_AGENT = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
"""With these, torch's workers are clients of a store that another process holds."""


def install(relay: ModuleType, vouching: ModuleType) -> None:
    """Let groups of torch in this process meet at the store that the environment names.

    Args:
        relay: The module ``behind_relay``.
        vouching: The module ``vouching``, which guards the group's own sockets.
    """
    place = os.environ.pop(KEYED_STORE, "")
    if not place:
        return
    meeting = tuple(os.environ.get(name) for name in _MEETING)
    keyed = _KeyedStore(relay, vouching, place, meeting)
    if _RENDEZVOUS in sys.modules:  # the worker has imported torch while it waited
        keyed.replace(sys.modules[_RENDEZVOUS])
    else:
        sys.meta_path.insert(0, _AfterImport(_RENDEZVOUS, keyed.replace))


class _KeyedStore:
    """Replaces torch's rendezvous by environment variables."""

    def __init__(
        self,
        relay: ModuleType,
        vouching: ModuleType,
        place: str,
        meeting: tuple[str | None, ...],
    ) -> None:
        self._relay = relay
        self._vouching = vouching
        self._place = place
        self._meeting = meeting
        self._at: dict[str, str] = {}

    def replace(self, rendezvous: ModuleType) -> None:
        """Replace the handler of ``env://`` in torch's module."""
        handlers = rendezvous._rendezvous_handlers
        by_environment = handlers["env"]

        def meet(*arguments: Any, **named: Any) -> Iterator[Any]:
            meeting = by_environment(*arguments, **named)
            if tuple(os.environ.get(name) for name in _MEETING) == self._meeting:
                with self._worker_variables():
                    place = next(meeting)
                yield place
            # Else the program forms a group of processes that it has started itself.
            yield from meeting

        handlers["env"] = meet

    @contextlib.contextmanager
    def _worker_variables(self) -> Iterator[None]:
        """Set the variables of torchrun's workers while torch reads them."""
        if self._place.startswith(NO_STORE):
            raise SystemExit(f"bftrainer: no group can be formed: {self._place[len(NO_STORE) :]}")
        names = [*_MEETING, *_AGENT]
        before = {name: os.environ.get(name) for name in names}
        if not self._at:
            self._vouching.install()
            os.environ[self._relay.STORE] = self._place
            self._relay.open_relay()
            self._at = {name: os.environ[name] for name in _MEETING}
        os.environ.update(self._at)
        os.environ.update(_AGENT)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module as soon as that has been imported."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders find, with a loader that calls the function."""
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_call(module: ModuleType) -> None:
            execute(module)
            self._then(module)

        # Of this one loader only: Python has no hook for the end of an import.
        spec.loader.exec_module = execute_and_call  # type: ignore[method-assign]
        return spec
