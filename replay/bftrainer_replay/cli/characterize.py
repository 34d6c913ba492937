"""``bftrainer replay characterize``: the idle nodes of a log in figures."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import DIR
from bftrainer.console.cli.output import say
from bftrainer.console.cli.tables import hanging_indent, name_column, number_column, show_table
from bftrainer.console.cli.topics import CommandWithTopics
from bftrainer.counted import counted
from bftrainer.errors import UserError
from bftrainer.system.files import write_atomically
from bftrainer_replay.cli.choices import write_errors_reported
from bftrainer_replay.cli.log_options import TOPICS_OF_LOGS, LogChoice, log_options, window_of
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bftrainer_replay.analysis.characterize import Characteristics


@click.command(cls=CommandWithTopics, topics=TOPICS_OF_LOGS)
@log_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option(
    "--out",
    type=DIR,
    help="Output directory for characterize.json, characterize.prom (for Prometheus's "
    "node_exporter), "
    "and fragments.png (the paper's Fig. 1).",
)
def characterize(choice: LogChoice, as_json: bool, out: Path | None) -> None:
    """Describe the idle nodes of LOG: how many there are, how often they change, how long they stay
    idle.

    LOG is an event log (time,joined,left as .csv or .csv.gz) or a job log: Slurm's sacct or
    jobcomp, LSF's lsb.acct or bhist, PBS/Torque/Cobalt accounting, SWF, ALCF's CSV. The format is
    detected from the content. If the log has a queue, idle node-time is broken down by which jobs
    were waiting at the time.

    \b
    Example:
      bftrainer replay characterize sample.csv.gz --hours 168 --out week1
      bftrainer replay characterize sacct.txt --timezone Europe/Zurich
    """
    from bftrainer_replay.analysis.accounts import HEADINGS, READ, accounts_of
    from bftrainer_replay.analysis.characterize import characterize as measure
    from bftrainer_replay.analysis.doubts import doubts_of
    from bftrainer_replay.analysis.gpu_hours import gpu_hours
    from bftrainer_replay.analysis.idle_causes import explained
    from bftrainer_replay.analysis.partitions import headings, partitions_of, words_of
    from bftrainer_replay.analysis.shared_nodes import shared_nodes

    window = window_of(choice, of_idle_gpus=True)
    figures = measure(window)
    if figures.idle_nodes_max > figures.machine_nodes:
        raise UserError(
            f"--machine-nodes {figures.machine_nodes}: expected at least "
            f"{figures.idle_nodes_max}, the nodes that are idle at once in {choice.log}"
        )
    shared = shared_nodes(window)
    gpus = None if window.gpus is None else gpu_hours(window)
    doubts = doubts_of(window, figures)
    facts = {
        "idle_share_range": [doubts.least, doubts.most],
        "doubts": list(doubts.sentences()),
        "shared_nodes": shared and shared.as_dict(),
    }
    if gpus is not None:
        facts["gpus"] = gpus.as_dict()
    text = json.dumps({**_as_json(window, figures), **facts}, indent=2)
    if out is not None:
        _write_all(out, window, text, _prometheus_text(window, figures))
    if as_json:
        click.echo(text)
        return
    say(f"{window.source}: {format_time(window.start_s)} .. {format_time(window.end_s)}")
    if window.note:
        say(hanging_indent("", f"Note: {window.note}."))
    unit = "node" if gpus is None else "GPU"
    _show_table(
        f"Idle {unit}s",
        ("", "count", "per hour"),
        _paper_figures(figures, unit),
        " ".join(doubts.sentences()),
    )
    if gpus is not None:
        # No division by 0 without idle hours; all shares are 0 then.
        idle_h = gpus.idle_h or 1.0
        rows = [(name, f"{hours:,.0f}", f"{hours / idle_h:.1%}") for name, hours in gpus.rows()]
        _show_table("Idle GPU-hours", ("", "GPU-h", "share"), rows, gpus.sentence())
    if (causes := figures.idle_while) is not None:
        _show_table(
            "Waiting jobs while nodes were idle",
            ("idle node-time while", "node-h", "share"),
            causes.rows(),
            " ".join(explained(causes, window.debounce_s)),
        )
    word, account = words_of(window)
    if len(parts := partitions_of(window)) > 1:
        _show_table(
            f"By {word} and device type",
            headings(word),
            [part.cells() for part in parts],
            f"A node in several {word}s counts in each. "
            "--partition NAME shows one of them in full.",
            2,
        )
    for name, accounts in (
        (account, accounts_of(window, "account")),
        ("QOS", accounts_of(window, "qos")),
    ):
        if accounts:
            _show_table(f"By {name}", (name, *HEADINGS), [row.cells for row in accounts], READ)
    if shared is not None:
        say()
        say(hanging_indent("", shared.sentence()))


def _as_json(window: LogWindow, figures: Characteristics) -> dict[str, object]:
    """Return the window and all its figures as a JSON object, with rates per hour and shares of the
    idle node-time.
    """
    shares = node_hours = missing = None
    causes = figures.idle_while
    if causes is not None:
        missing = causes.not_judged
        node_hours = {cause.name.lower(): causes.of(cause) for cause in causes.shares()}
        shares = {cause.name.lower(): share for cause, share in causes.shares().items()}
    return {
        "log": window.source,
        "start": format_time(window.start_s),
        "end": format_time(window.end_s),
        "note": window.note,
        "debounce_s": window.debounce_s,
        **dataclasses.asdict(figures),
        "idle_while": node_hours,
        "idle_while_shares": shares,
        "not_judged": missing,
        "events_per_h": figures.per_hour(figures.events),
        "joins_per_h": figures.per_hour(figures.joins),
        "leaves_per_h": figures.per_hour(figures.leaves),
        "increases_per_h": figures.per_hour(figures.increases),
        "decreases_per_h": figures.per_hour(figures.decreases),
    }


def _prometheus_text(window: LogWindow, figures: Characteristics) -> str:
    """Return the figures of a log as gauges, in the text format of Prometheus.

    A figure that the log does not have is left out.
    """
    fits = None if figures.idle_while is None else figures.idle_while.fillable_share
    gauges = (
        ("machine_nodes", "Nodes of the cluster.", figures.machine_nodes),
        ("idle_ratio", "Idle part of the node-hours in service.", figures.idle_share),
        ("idle_node_hours", "Idle node-hours of the log.", figures.node_hours),
        ("idle_nodes_mean", "Idle nodes on average over time.", figures.eq_nodes),
        ("outage_hours", "Hours of outages, which are in no share.", figures.outage_h),
        (
            "fillable_ratio",
            "Part of the idle node-hours that a waiting job could have used, at most.",
            fits,
        ),
        (
            "pool_ratio",
            "Part of the idle node-hours that a pool on every idle node turns into work.",
            figures.pool_share,
        ),
        ("start_seconds", "Start of the log, since 1970.", window.start_s),
        ("end_seconds", "End of the log, since 1970.", window.end_s),
    )
    return "".join(
        f"# HELP bftrainer_log_{name} {text}\n# TYPE bftrainer_log_{name} "
        f"gauge\nbftrainer_log_{name} {float(value)!r}\n"
        for name, text, value in gauges
        if value is not None
    )


def _write_all(out: Path, window: LogWindow, text: str, metrics: str) -> None:
    """Write the files of --out: the figures as JSON and for Prometheus, and the picture of fragment
    lengths.
    """
    from bftrainer_replay.figures import style
    from bftrainer_replay.figures.fragment_lengths import fragments_figure

    with write_errors_reported(out):
        write_atomically(out / "characterize.json", f"{text}\n".encode())
        write_atomically(out / "characterize.prom", metrics.encode())
        write_atomically(out / "fragments.png", style.png(fragments_figure(window)))


def _show_table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_below: str = "",
    name_columns: int = 1,
) -> None:
    """Print a table with its title and a text below it; all columns but the first ``name_columns``
    are numbers.
    """
    say(f"\n{title}")
    # Of equal rank on a narrow terminal: the last columns are left out first.
    show_table(
        [
            *map(name_column, heads[:name_columns]),
            *(number_column(head, place) for place, head in enumerate(heads[name_columns:])),
        ],
        rows,
    )
    if text_below:
        say(hanging_indent("", text_below))


def _paper_figures(figures: Characteristics, unit: str) -> list[tuple[str, str, str]]:
    """Return the figures of the paper's section 2.1 as rows (name, number, number per hour);
    ``unit`` is node or GPU.
    """
    from bftrainer_replay.analysis.characterize import START_S

    counts = (
        ("events (initial state included)", figures.events),
        ("  with a join", figures.joins),
        ("  with a leave", figures.leaves),
        (f"  more {unit}s idle than before (INC)", figures.increases),
        (f"  fewer {unit}s idle than before (DEC)", figures.decreases),
        ("fragments", figures.fragments),
    )
    rows = [
        ("span", f"{figures.span_h:,.1f} h"),
        (
            "out of service or reserved, in no share",
            figures.down_node_h and f"{figures.down_node_h:,.0f} {unit}-h",
        ),
        ("outages, not in the span", figures.outage_h and f"{figures.outage_h:,.1f} h"),
        ("gaps (no data), not in the span", figures.unknown_h and f"{figures.unknown_h:,.1f} h"),
        ("resource integral (Eqn 17)", f"{figures.node_hours:,.0f} {unit}-h"),
        (f"eq-{unit}s (Eqn 18)", f"{figures.eq_nodes:,.1f}"),
        (
            f"idle share of {counted(figures.machine_nodes, unit)} in service",
            f"{figures.idle_share:.2%}",
        ),
        (f"  of it work of a one-node pool, start {START_S:g} s", f"{figures.pool_share:.1%}"),
        (f"idle {unit}s: fewest", f"{figures.idle_nodes_min:,}"),
        (f"idle {unit}s: median over time", f"{figures.idle_nodes_median:,}"),
        (f"idle {unit}s: most", f"{figures.idle_nodes_max:,}"),
    ]
    if (lengths := figures.fragment_lengths) is not None:
        rows += [
            ("fragments under 10 min", f"{lengths.short_share:.1%}"),
            (f"  their share of the {unit}-time", f"{lengths.short_node_time_share:.1%}"),
            ("fragment length: first quartile", f"{lengths.first_quartile_s / 60:,.1f} min"),
            ("fragment length: median", f"{lengths.median_s / 60:,.1f} min"),
            ("fragment length: third quartile", f"{lengths.third_quartile_s / 60:,.1f} min"),
            ("fragment length: 90th percentile", f"{lengths.p90_s / 60:,.1f} min"),
        ]
    rates = [(name, f"{count:,}", f"{figures.per_hour(count):.1f}") for name, count in counts]
    # Rows without a value (no outages, no gaps) are left out.
    return [*rates, *((name, value, "") for name, value in rows if value)]
