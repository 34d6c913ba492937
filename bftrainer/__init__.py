"""bftrainer: neural network training on the nodes that a batch scheduler cannot fill (Liu et al.
2021).

``bftrainer.submit`` and the other names of ``bftrainer.console.client.public`` are imported when
they are first used: training scripts import this package as well, and need none of them.
``__init__.pyi`` tells type checkers what they are.
"""

__version__ = "0.1.0"

_PUBLIC = (
    "ASHA",
    "History",
    "HistoryPoint",
    "Metric",
    "NodesPoint",
    "Progress",
    "ResultRow",
    "SubmissionStatus",
    "SubmissionView",
    "TrainerFailedError",
    "TrainerHandle",
    "TrainerKeys",
    "TrainerResult",
    "UserError",
    "WaitTimeoutError",
    "as_completed",
    "as_completed_async",
    "results",
    "submit",
    "sweep",
    "trainer",
    "trainers",
)


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'bftrainer' has no attribute {name!r}")
    if not _has_commands():
        raise ImportError(
            f"bftrainer.{name} is not part of bftrainer-train, which is for training scripts; "
            "install the pilot and its commands with: pip install bftrainer"
        )
    from importlib import import_module

    return getattr(import_module("bftrainer.console.client.public"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *(_PUBLIC if _has_commands() else ())})


def _has_commands() -> bool:
    """Whether the whole package is installed, and not only the wheel ``bftrainer-train``."""
    from importlib.util import find_spec

    return find_spec("bftrainer.console") is not None
