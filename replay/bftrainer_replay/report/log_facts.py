"""Facts of a job log besides idle nodes, as chapters of its report: waiting jobs, partitions,
shared nodes.
"""

from __future__ import annotations

from bftrainer_replay.analysis.accounts import HEADINGS, READ, Payer, accounts_of
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.analysis.idle_causes import IdleCauses, explained
from bftrainer_replay.analysis.partitions import headings, partitions_of, words_of
from bftrainer_replay.analysis.shared_nodes import shared_nodes
from bftrainer_replay.logs.job_needs import JobFact
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.page import Chapter, PageTable


def _queue_text(causes: IdleCauses) -> str:
    """Return sentences on the part of the idle node-time that the waiting jobs could not have
    filled.
    """
    # Without time limits, jobs are judged by their other needs only.
    judged = (
        ""
        if JobFact.TIME_LIMIT in causes.unknown
        else ", judged by the time limits that they asked for"
    )
    return (
        f"{1 - causes.fillable_share:.1%} of the idle node-time could not have been filled by "
        f"the jobs that waited{judged}. "
        "Facts that the log does not have may make this more; jobs that end before their "
        "limits, less."
    )


def _causes_table(causes: IdleCauses, window: LogWindow) -> PageTable:
    """Return the table of idle node-time by why no waiting job used it."""
    return PageTable(
        "idle-while",
        "Jobs that waited while nodes were idle",
        f"Read: {' '.join(explained(causes, window.debounce_s))}",
        ("idle node-time while", "node-hours", "share"),
        causes.rows(),
        main=1,
        prose=True,
    )


def _by_partition(window: LogWindow) -> tuple[PageTable, ...]:
    """Return the table of partitions and device types in a tuple; empty with fewer than two."""
    rows = tuple(part.cells() for part in partitions_of(window))
    if len(rows) < 2:
        return ()
    word = words_of(window)[0]
    return (
        PageTable(
            "partitions",
            f"By {word} and device type",
            f"Read: a node in several {word}s counts in each. The option --partition NAME "
            "makes this report of one of them.",
            headings(word),
            rows,
            main=3,
        ),
    )


def _by_account(window: LogWindow, kind: Payer, word: str) -> tuple[PageTable, ...]:
    """Return the table of accounts, or of QOS (``kind``), in a tuple; empty with fewer than two.

    ``word`` is the log's word for them.
    """
    rows = tuple(account.cells for account in accounts_of(window, kind))
    return (
        (
            PageTable(
                f"{kind}s",
                f"By {word}",
                f"Read: {READ[:1].lower()}{READ[1:]}",
                (word, *HEADINGS),
                rows,
            ),
        )
        if rows
        else ()
    )


def shared_chapter(window: LogWindow) -> tuple[Chapter, ...]:
    """Return the chapter on cores and devices that are idle on nodes with a job, in a tuple.

    Empty if the log does not tell what jobs were allocated.
    """
    shared = shared_nodes(window)
    if shared is None:
        return ()
    table = PageTable(
        "shared-nodes",
        "Idle cores and devices",
        "Read: the first three columns add up to the total, less the nodes out of service. "
        f"{shared.capacity_origin}.",
        (
            "hours of",
            "in use",
            "idle on nodes without a job",
            "idle on nodes with a job",
            "all idle",
            "of the total",
        ),
        tuple(
            (
                resource.kind,
                f"{resource.used_h:,.0f}",
                f"{resource.whole_nodes_h:,.0f}",
                f"{resource.parts_h:,.0f}",
                f"{resource.idle_h:,.0f}",
                f"{resource.idle_h / resource.available_h:.1%}" if resource.available_h else "",
            )
            for resource in shared.kinds
        ),
        main=4,
    )
    return (Chapter("Shared nodes", shared.sentence(), (table,)),)


def queue_chapter(characteristics: Characteristics, window: LogWindow) -> Chapter:
    """Return the chapter on the jobs that waited while nodes were idle, and why they did not start.

    It has tables by cause, partition and account; none for a log without the queue.
    """
    title = "Idle nodes and waiting jobs"
    if characteristics.idle_while is None:
        return Chapter(
            title,
            "This log does not contain the job queue. The report therefore cannot tell idle "
            "nodes that the scheduler could "
            "have filled from those that it could not. The scheduler's own job log contains "
            "the queue.",
            (),
        )
    tables = (
        _causes_table(characteristics.idle_while, window),
        *_by_partition(window),
        *_by_account(window, "account", words_of(window)[1]),
        *_by_account(window, "qos", "QOS"),
    )
    return Chapter(title, _queue_text(characteristics.idle_while), tables)
