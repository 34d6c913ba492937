from bftrainer.console.client.public import ASHA as ASHA
from bftrainer.console.client.public import History as History
from bftrainer.console.client.public import HistoryPoint as HistoryPoint
from bftrainer.console.client.public import Metric as Metric
from bftrainer.console.client.public import NodesPoint as NodesPoint
from bftrainer.console.client.public import Progress as Progress
from bftrainer.console.client.public import ResultRow as ResultRow
from bftrainer.console.client.public import SubmissionStatus as SubmissionStatus
from bftrainer.console.client.public import SubmissionView as SubmissionView
from bftrainer.console.client.public import TrainerFailedError as TrainerFailedError
from bftrainer.console.client.public import TrainerHandle as TrainerHandle
from bftrainer.console.client.public import TrainerKeys as TrainerKeys
from bftrainer.console.client.public import TrainerResult as TrainerResult
from bftrainer.console.client.public import UserError as UserError
from bftrainer.console.client.public import WaitTimeoutError as WaitTimeoutError
from bftrainer.console.client.public import as_completed as as_completed
from bftrainer.console.client.public import as_completed_async as as_completed_async
from bftrainer.console.client.public import results as results
from bftrainer.console.client.public import submit as submit
from bftrainer.console.client.public import sweep as sweep
from bftrainer.console.client.public import trainer as trainer
from bftrainer.console.client.public import trainers as trainers

__version__: str
