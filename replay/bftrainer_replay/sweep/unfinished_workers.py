"""Imported by the fork server only, before it forks: workers that get part of their inputs end
without a traceback.

Ctrl-C may end the parent while it writes the inputs of a worker. The worker then finds a truncated
pickle, which multiprocessing prints with ``sys.excepthook``. If the parent goes on, it raises
BrokenProcessPool itself.
"""

from __future__ import annotations

import sys
from pickle import UnpicklingError
from types import TracebackType


def hide_truncated_inputs(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an exception as Python does, but for one that only a truncated pickle raises."""
    if not issubclass(kind, (EOFError, UnpicklingError)):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = hide_truncated_inputs
