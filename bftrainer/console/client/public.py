"""Submit trainers and follow them from Python, over the same spool and registry as the commands."""

from bftrainer.console.client.functions import TrainerKeys as TrainerKeys
from bftrainer.console.client.functions import as_completed as as_completed
from bftrainer.console.client.functions import as_completed_async as as_completed_async
from bftrainer.console.client.functions import results as results
from bftrainer.console.client.functions import submit as submit
from bftrainer.console.client.functions import sweep as sweep
from bftrainer.console.client.functions import trainer as trainer
from bftrainer.console.client.functions import trainers as trainers
from bftrainer.console.client.handle import TrainerHandle as TrainerHandle
from bftrainer.console.client.handle import TrainerResult as TrainerResult
from bftrainer.console.client.history import History as History
from bftrainer.console.client.history import HistoryPoint as HistoryPoint
from bftrainer.console.client.history import NodesPoint as NodesPoint
from bftrainer.console.client.history import Progress as Progress
from bftrainer.console.client.results import ResultRow as ResultRow
from bftrainer.console.client.statuses import SubmissionStatus as SubmissionStatus
from bftrainer.console.client.statuses import SubmissionView as SubmissionView
from bftrainer.decide.domain.stopping import ASHA as ASHA
from bftrainer.errors import TrainerFailedError as TrainerFailedError
from bftrainer.errors import UserError as UserError
from bftrainer.errors import WaitTimeoutError as WaitTimeoutError
from bftrainer.wires.metrics import Metric as Metric
