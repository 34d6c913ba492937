"""Submit trainers and follow them from Python, over the same spool and registry as the commands."""

from bftrainer.client.functions import TrainerKeys as TrainerKeys
from bftrainer.client.functions import as_completed as as_completed
from bftrainer.client.functions import as_completed_async as as_completed_async
from bftrainer.client.functions import results as results
from bftrainer.client.functions import submit as submit
from bftrainer.client.functions import sweep as sweep
from bftrainer.client.functions import trainer as trainer
from bftrainer.client.functions import trainers as trainers
from bftrainer.client.handle import TrainerHandle as TrainerHandle
from bftrainer.client.handle import TrainerResult as TrainerResult
from bftrainer.client.history import History as History
from bftrainer.client.history import HistoryPoint as HistoryPoint
from bftrainer.client.history import NodesPoint as NodesPoint
from bftrainer.client.history import Progress as Progress
from bftrainer.client.results import ResultRow as ResultRow
from bftrainer.client.statuses import SubmissionStatus as SubmissionStatus
from bftrainer.client.statuses import SubmissionView as SubmissionView
from bftrainer.domain.stopping import ASHA as ASHA
from bftrainer.errors import TrainerFailedError as TrainerFailedError
from bftrainer.errors import UserError as UserError
from bftrainer.errors import WaitTimeoutError as WaitTimeoutError
from bftrainer.protocol.metrics import Metric as Metric
