from bftrainer.client.public import ASHA as ASHA
from bftrainer.client.public import History as History
from bftrainer.client.public import HistoryPoint as HistoryPoint
from bftrainer.client.public import Metric as Metric
from bftrainer.client.public import NodesPoint as NodesPoint
from bftrainer.client.public import Progress as Progress
from bftrainer.client.public import ResultRow as ResultRow
from bftrainer.client.public import SubmissionStatus as SubmissionStatus
from bftrainer.client.public import SubmissionView as SubmissionView
from bftrainer.client.public import TrainerFailedError as TrainerFailedError
from bftrainer.client.public import TrainerHandle as TrainerHandle
from bftrainer.client.public import TrainerKeys as TrainerKeys
from bftrainer.client.public import TrainerResult as TrainerResult
from bftrainer.client.public import UserError as UserError
from bftrainer.client.public import WaitTimeoutError as WaitTimeoutError
from bftrainer.client.public import as_completed as as_completed
from bftrainer.client.public import as_completed_async as as_completed_async
from bftrainer.client.public import results as results
from bftrainer.client.public import submit as submit
from bftrainer.client.public import sweep as sweep
from bftrainer.client.public import trainer as trainer
from bftrainer.client.public import trainers as trainers

__version__: str
