"""All jobs by one squeue, as each reader asks for them: pending jobs, pilots and holders, jobs that
wait for a limit. Pure.

squeue filters what slurmctld sends it for all jobs, so four readers cost one call. Each still gets
the records that a squeue of its own would print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bftrainer_clusters.slurm.records import MarkedQuery, fields_of, new_mark, parse_records

_COLUMNS = {
    "%A": "JOBID",
    "%u": "USER",
    "%a": "ACCOUNT",
    "%q": "QOS",
    "%T": "STATE",
    "%P": "PARTITION",
    "%S": "START_TIME",
    "%Y": "SCHEDNODES",
    "%D": "NODES",
    "%n": "REQ_NODES",
    "%e": "END_TIME",
    "%r": "REASON",
    "%j": "NAME",
    "%k": "COMMENT",
}
"""Free text comes last."""
_WAIT_COLUMNS = {
    "%A": "JOBID",
    "%Q": "PRIORITY",
    "%K": "ARRAY_TASK_ID",
    "%x": "EXC_NODES",
    "%V": "SUBMIT_TIME",
    "%N": "NODELIST",
    "%C": "CPUS",
    "%c": "MIN_CPUS",
    "%m": "MIN_MEMORY",
    "%b": "TRES_PER_NODE",
    **{column: title for column, title in _COLUMNS.items() if column not in ("%j", "%k")},
    "%f %j": "FEATURES NAME",
    "%k": "COMMENT",
}
"""The columns for a pilot that makes way for main jobs, which has to know more of them
(:mod:`.node_waits`). Features may contain bars (``a100|h100``) and no blank.
"""
_TITLES = {**_COLUMNS, **_WAIT_COLUMNS}
FORMAT, _HEADER = "|".join(_COLUMNS), "|".join(_COLUMNS.values())
WAITS, _WAITS_HEADER = "|".join(_WAIT_COLUMNS), "|".join(_WAIT_COLUMNS.values())
HOLDER_NAME, PILOT_NAME = NAMES = ("bftrainer-holder", "bftrainer-pilot")

Job = dict[str, str]
"""A job's fields by column. Only pilots and holders have names and comments here: any user may give
a job any name.
"""


def query(ended: bool = False, mark: str | None = None, with_waits: bool = False) -> MarkedQuery:
    """Build the squeue of all jobs; ``ended``: with those that ended lately, ``with_waits``: with
    the columns of :data:`WAITS`. Without --noconvert, 1024 nodes would be ``1K``.
    """
    states = ("-t", "all") if ended else ()
    columns = WAITS if with_waits else FORMAT
    return MarkedQuery(("squeue", "-a", *states, "--noconvert"), columns, mark or new_mark())


@dataclass(frozen=True, slots=True)
class JobList:
    """What squeue printed, read once. ``mark`` ends its records. ``at_s``: when a broker asked, by
    the pilot's monotonic clock (None: the pilot asked itself). ``weights`` of users that it
    published. ``has_waits``: the jobs have the columns of :data:`WAITS`.
    """

    jobs: tuple[Job, ...]
    mark: str
    at_s: float | None = None
    weights: Mapping[str, int] | None = None
    has_waits: bool = False

    def as_printed(self, form: str, is_wanted: Callable[[Job], bool]) -> str:
        """Format the wanted jobs as ``squeue -o FORM|MARK`` prints them, with its header."""
        columns = form.split("|")
        lines = ["|".join(_TITLES[column] for column in columns)]
        lines += [
            "|".join([job[column] for column in columns]) for job in self.jobs if is_wanted(job)
        ]
        return "".join([f"{line}|{self.mark}\n" for line in lines])


def parse_jobs(text: str, mark: str) -> JobList:
    """Parse the answer to :func:`query`. Raises :class:`~bftrainer.errors.SchedulerError`."""
    has_waits = text.startswith(f"{_WAITS_HEADER}|")
    columns = tuple(_WAIT_COLUMNS if has_waits else _COLUMNS)
    header = _WAITS_HEADER if has_waits else _HEADER
    records = parse_records(text, mark, header, "jobs")
    return JobList(
        tuple(_parsed_job(record, columns) for record in records), mark, has_waits=has_waits
    )


def _parsed_job(record: str, columns: tuple[str, ...]) -> Job:
    """Parse a record into a job. Name and comment are left empty unless the job is named like a
    holder or a pilot.
    """
    *fixed, texts, _ = columns
    values = fields_of(record, len(columns) - 1)
    name, _, comment = values.pop().partition("|")
    job = dict(zip(fixed, values, strict=True))
    has_features, features = texts != "%j", ""
    if has_features:
        features, _, text = f"{name}|{comment}".partition(" ")
        name, _, comment = text.partition("|")
    job["%j"], job["%k"] = (name, comment) if name in NAMES else ("", "")
    if has_features:
        job["%f"], job[texts] = features, f"{features} {job['%j']}"
    return job


def waits(job: Job) -> bool:
    """Return whether a job is pending. EXPEDITING is a job requeued with ``--requeue=expedite``,
    which ``-t PD`` does not list (26.05.5).
    """
    return job["%T"] in ("PENDING", "EXPEDITING")
