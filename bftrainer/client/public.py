"""Submit trainers and follow them from Python, over the same spool and registry as the commands."""

from bftrainer.client.functions import (
    TrainerKeys,
    as_completed,
    as_completed_async,
    results,
    submit,
    sweep,
    trainer,
    trainers,
)
from bftrainer.client.handle import TrainerHandle, TrainerResult
from bftrainer.client.history import History, HistoryPoint, NodesPoint, Progress
from bftrainer.client.results import ResultRow
from bftrainer.client.statuses import SubmissionStatus, SubmissionView
from bftrainer.domain.stopping import ASHA
from bftrainer.errors import TrainerFailedError, UserError, WaitTimeoutError
from bftrainer.protocol.metrics import Metric

__all__ = [
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
]
