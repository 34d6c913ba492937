"""``bftrainer replay characterize``: the idle nodes of a log in figures."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.errors import UserError
from bftrainer.system.files import write_atomically
from bftrainer_replay.cli.log_options import LogChoice, log_options, window_of
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from bftrainer_replay.analysis.characterize import Characteristics
    from bftrainer_replay.analysis.gpu_hours import GpuHours
    from bftrainer_replay.analysis.idle_causes import IdleCauses
    from bftrainer_replay.analysis.partitions import PartitionFigures


@click.command()
@log_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Output directory for characterize.json, characterize.prom (for Prometheus's node_exporter), "
    "and fragments.png (the paper's Fig. 1).",
)
def characterize(choice: LogChoice, as_json: bool, out: Path | None) -> None:
    """Describe the idle nodes of LOG: how many there are, how often they change, how long they stay idle.

    LOG is an event log (time,joined,left as .csv or .csv.gz) or a job log: Slurm's sacct or jobcomp, LSF's lsb.acct or
    bhist, PBS/Torque/Cobalt accounting, SWF, ALCF's CSV. The format is detected from the content. If the log has a queue, idle
    node-time is broken down by which jobs were waiting at the time.

    \b
    Example:
      bftrainer replay characterize sample.csv.gz --hours 168 --out week1
      bftrainer replay characterize sacct.txt --timezone Europe/Zurich
    """
    from bftrainer_replay.analysis.characterize import characterize as measure
    from bftrainer_replay.analysis.gpu_hours import gpu_hours
    from bftrainer_replay.analysis.partitions import partition_word, partitions_of
    from bftrainer_replay.analysis.shared_nodes import shared_nodes

    window = window_of(choice, of_idle_gpus=True)
    found = measure(window)
    if found.idle_nodes_max > found.machine_nodes:
        raise UserError(
            f"--machine-nodes {found.machine_nodes}: expected at least {found.idle_nodes_max}, the nodes that are idle at once "
            f"in {choice.log}"
        )
    shared = shared_nodes(window)
    gpus = None if window.gpus is None else gpu_hours(window)
    facts = {"shared_nodes": shared and shared.as_dict(), **({} if gpus is None else {"gpus": gpus.as_dict()})}
    text = json.dumps({**_as_json(window, found), **facts}, indent=2)
    if out is not None:
        _write_all(out, window, text, _prometheus(window, found))
    if as_json:
        click.echo(text)
        return
    from rich.console import Console

    console = Console()
    console.print(
        f"{window.source}: {format_time(window.start_s)} .. {format_time(window.end_s)}",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
    if window.note:
        console.print(f"Note: {window.note}.", soft_wrap=True, markup=False, highlight=False)
    console.print(_numbers(found, "node" if gpus is None else "GPU"))
    if gpus is not None:
        console.print(_parts(gpus))
        console.print(gpus.sentence(), soft_wrap=True, highlight=False)
    if found.idle_while is not None:
        console.print(_beside_the_queue(found.idle_while, window.debounce_s))
    if len(parts := partitions_of(window)) > 1:
        console.print(_by_partition(parts, partition_word(window)))
    if shared is not None:
        console.print(shared.sentence(), soft_wrap=True, markup=False, highlight=False)


def _as_json(window: LogWindow, found: Characteristics) -> dict[str, object]:
    """The window, all its figures, the rates per hour, and the shares of idle node-time."""
    shares = node_hours = missing = None
    if found.idle_while is not None:
        missing = found.idle_while.not_judged
        node_hours = {cause.name.lower(): found.idle_while.of(cause) for cause in found.idle_while.shares()}
        shares = {cause.name.lower(): share for cause, share in found.idle_while.shares().items()}
    return {
        "log": window.source,
        "start": format_time(window.start_s),
        "end": format_time(window.end_s),
        "note": window.note,
        "debounce_s": window.debounce_s,
        **dataclasses.asdict(found),
        "idle_while": node_hours,
        "idle_while_shares": shares,
        "not_judged": missing,
        "events_per_h": found.per_hour(found.events),
        "joins_per_h": found.per_hour(found.joins),
        "leaves_per_h": found.per_hour(found.leaves),
        "increases_per_h": found.per_hour(found.increases),
        "decreases_per_h": found.per_hour(found.decreases),
    }


def _prometheus(window: LogWindow, found: Characteristics) -> str:
    """The figures of a month as gauges, in the text format of Prometheus."""
    fits = None if found.idle_while is None else found.idle_while.fillable_share
    gauges = (
        ("machine_nodes", "Nodes of the cluster.", found.machine_nodes),
        ("idle_ratio", "Idle part of the node-hours in service.", found.idle_share),
        ("idle_node_hours", "Idle node-hours of the log.", found.node_hours),
        ("idle_nodes_mean", "Idle nodes on average over time.", found.eq_nodes),
        ("outage_hours", "Hours of outages, which are in no share.", found.outage_h),
        ("fillable_ratio", "Part of the idle node-hours that a waiting job could have used, at most.", fits),
        ("start_seconds", "Start of the log, since 1970.", window.start_s),
        ("end_seconds", "End of the log, since 1970.", window.end_s),
    )
    return "".join(
        f"# HELP bftrainer_log_{name} {text}\n# TYPE bftrainer_log_{name} gauge\nbftrainer_log_{name} {float(value)!r}\n"
        for name, text, value in gauges
        if value is not None
    )


def _write_all(out: Path, window: LogWindow, text: str, metrics: str) -> None:
    from bftrainer_replay.figures import style
    from bftrainer_replay.figures.fragments import fragments_figure

    try:
        write_atomically(out / "characterize.json", f"{text}\n".encode())
        write_atomically(out / "characterize.prom", metrics.encode())
        write_atomically(out / "fragments.png", style.png(fragments_figure(window)))
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written: {error.strerror}") from error


def _numbers(found: Characteristics, unit: str) -> Table:
    """The paper's section 2.1 in rows, of nodes or GPUs."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=f"Idle {unit}s", title_justify="left")
    for header in ("", "count", "per hour"):
        table.add_column(header, justify="right" if header else "left")
    for name, count in (
        ("events (initial state included)", found.events),
        ("  with a join", found.joins),
        ("  with a leave", found.leaves),
        (f"  more {unit}s idle than before (INC)", found.increases),
        (f"  fewer {unit}s idle than before (DEC)", found.decreases),
        ("fragments", found.fragments),
    ):
        table.add_row(name, f"{count:,}", f"{found.per_hour(count):.1f}")
    table.add_section()
    table.add_row("span", f"{found.span_h:,.1f} h", "")
    if found.down_node_h:
        table.add_row("out of service or reserved, in no share", f"{found.down_node_h:,.0f} {unit}-h", "")
    if found.outage_h:
        table.add_row("outages, not in the span", f"{found.outage_h:,.1f} h", "")
    if found.unknown_h:
        table.add_row("gaps (no data), not in the span", f"{found.unknown_h:,.1f} h", "")
    table.add_row("resource integral (Eqn 17)", f"{found.node_hours:,.0f} {unit}-h", "")
    table.add_row(f"eq-{unit}s (Eqn 18)", f"{found.eq_nodes:,.1f}", "")
    table.add_row(f"idle share of {found.machine_nodes:,} {unit}s in service", f"{found.idle_share:.2%}", "")
    table.add_row(f"idle {unit}s: fewest", f"{found.idle_nodes_min:,}", "")
    table.add_row(f"idle {unit}s: median over time", f"{found.idle_nodes_median:,}", "")
    table.add_row(f"idle {unit}s: most", f"{found.idle_nodes_max:,}", "")
    if found.fragment_lengths is not None:
        lengths = found.fragment_lengths
        table.add_section()
        table.add_row("fragments under 10 min", f"{lengths.short_share:.1%}", "")
        table.add_row(f"  their share of the {unit}-time", f"{lengths.short_node_time_share:.1%}", "")
        for name, length_s in (
            ("fragment length: first quartile", lengths.first_quartile_s),
            ("fragment length: median", lengths.median_s),
            ("fragment length: third quartile", lengths.third_quartile_s),
            ("fragment length: 90th percentile", lengths.p90_s),
        ):
            table.add_row(name, f"{length_s / 60:,.1f} min", "")
    return table


def _parts(gpus: GpuHours) -> Table:
    """Where GPUs are idle."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title="Idle GPU-hours", title_justify="left")
    for header in ("", "GPU-h", "share"):
        table.add_column(header, justify="right" if header else "left")
    for name, hours in gpus.rows():
        table.add_row(name, f"{hours:,.0f}", f"{hours / (gpus.idle_h or 1.0):.1%}")
    return table


def _beside_the_queue(found: IdleCauses, debounce_s: float) -> Table:
    """Idle node-time by whether the scheduler could have used it."""
    from rich import box
    from rich.table import Table

    from bftrainer_replay.analysis.idle_causes import explained

    table = Table(box=box.SIMPLE_HEAD, title="Waiting jobs while nodes were idle", title_justify="left")
    for header in ("idle node-time while", "node-h", "share"):
        table.add_column(header, justify="left" if header.startswith("idle") else "right")
    for cause, share in found.shares().items():
        if share or cause.name in ("FITS", "NO_JOB"):
            table.add_row(found.text(cause), f"{found.of(cause):,.0f}", f"{share:.1%}")
    table.caption = " ".join(explained(found, debounce_s))
    table.caption_justify = "left"
    return table


def _by_partition(parts: Sequence[PartitionFigures], word: str) -> Table:
    """A row per partition and device type; ``word`` is what the log calls a partition."""
    from rich import box
    from rich.table import Table

    from bftrainer_replay.analysis.partitions import headings

    table = Table(box=box.SIMPLE_HEAD, title=f"By {word} and device type", title_justify="left")
    for place, header in enumerate(headings(word)):
        table.add_column(header, justify="left" if place < 2 else "right")
    for part in parts:
        table.add_row(*part.cells())
    table.caption = f"A node in several {word}s counts in each. --partition NAME shows one of them in full."
    table.caption_justify = "left"
    return table
