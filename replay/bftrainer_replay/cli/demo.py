"""``bftrainer demo``: a generated log, two policies replayed on it, a live pilot, and one page."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from bftrainer.errors import UserError
from bftrainer_replay.cli.progress import progress_over_time

_NODES, _DAYS, _SEED, _TRAINERS, _MODEL = 1024, 7.0, 1, 1000, "shufflenet"


@click.command()
@click.option(
    "--out",
    default="demo",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Output directory.",
)
def demo(out: Path) -> None:
    """Replay a generated week of idle nodes under two policies and write an HTML report.

    The log has the idle nodes of a 1,024-node cluster; the policies are equal share and BFTrainer. During the replay, a real
    pilot runs for a minute on nodes from the same log, played back faster than real time, with trainers on this host.

    The demo needs no input, no root privileges and no port. It takes about a minute and a half. The report is
    DIR/report.html; DIR/pictures and DIR/data contain the same results as PNG and CSV.

    \b
    Example:
      bftrainer demo --out demo
    """
    from contextlib import closing

    from rich.console import Console

    from bftrainer.allocation.exact import Exact
    from bftrainer.allocation.objectives import DEFAULT_OBJECTIVE, OBJECTIVES
    from bftrainer.plugins import build_policy
    from bftrainer.policies.settings import PolicySettings
    from bftrainer.system.files import write_atomically
    from bftrainer_replay.analysis.characterize import characterize
    from bftrainer_replay.cli.demo_pilot import RUN_S, DemoPilot, live_window
    from bftrainer_replay.cli.run import table
    from bftrainer_replay.generation.generate import generate
    from bftrainer_replay.logs.event_log import format_time, write_event_log
    from bftrainer_replay.logs.model import cut
    from bftrainer_replay.report.demo_page import DemoReplay, demo_page
    from bftrainer_replay.report.page import write
    from bftrainer_replay.simulation.bounds import bounds_of
    from bftrainer_replay.simulation.play import Scenario, play, static_outcome, static_outcomes
    from bftrainer_replay.simulation.summary import summarize
    from bftrainer_replay.sweep.detail import detail_of, read_detail
    from bftrainer_replay.workload.workload import hpo, submissions, write_workload

    began = time.perf_counter()
    console = Console()
    console.print(f"Generating {_DAYS:g} days of idle nodes of a {_NODES:,}-node machine (seed {_SEED}) ...")
    log = generate(_NODES, _DAYS, _SEED)
    window = cut(log, machine_nodes=_NODES)
    arrivals = hpo(_MODEL, submissions(window.start_s, _TRAINERS, 36.0))
    try:
        write_event_log(out / "log.csv.gz", log)
        write_workload(out / "trainers.csv", arrivals)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written: {error.strerror}") from error
    found = characterize(window)
    console.print(
        f"  {found.events:,} pool events, {found.node_hours:,.0f} idle node-hours ({found.idle_share:.1%} of the machine)"
    )
    console.print(f"Starting a pilot on nodes of this log, with three trainers, for {RUN_S:.0f} s ...")
    scenario = Scenario(window, arrivals)
    settings = PolicySettings(Exact(), OBJECTIVES[DEFAULT_OBJECTIVE])
    replays = []
    console.print(
        f"Replaying {_TRAINERS:,} {_MODEL} trainers on these nodes, under equal share and under BFTrainer ..."
    )
    with closing(DemoPilot.start(out / "log.csv.gz")) as pilot:
        with progress_over_time(window.start_s, window.end_s) as begin:
            static = static_outcome(scenario, on_time=begin("static nodes"))
            bounds = bounds_of(scenario, on_time=begin("no-cost bound"))
            for name in ("equal-share", "bftrainer"):
                outcome = play(scenario, build_policy(name, settings), on_time=begin(name))
                summary = summarize(name, scenario, outcome, static, bounds)
                replays.append(DemoReplay(summary, read_detail(detail_of(scenario, outcome))))
        static_bins = static_outcomes(scenario, replays[0].detail.bin_edges_s.tolist())
        console.print("Waiting for the pilot to finish its minute ...")
        live = pilot.finish(live_window(window))
        pilot.keep(out)
    commands = (
        f"bftrainer replay generate --nodes {_NODES} --days {_DAYS:g} --seed {_SEED} --out log.csv.gz",
        f"bftrainer replay workload hpo --model {_MODEL} --count {_TRAINERS} --spacing-s 36 "
        f"--start {format_time(window.start_s)} --out trainers.csv",
        "bftrainer replay characterize log.csv.gz --out idle",
        "bftrainer replay run --log log.csv.gz --trainers trainers.csv --policy bftrainer --out bftrainer",
        "bftrainer replay run --log log.csv.gz --trainers trainers.csv --policy equal-share --out equal-share",
    )
    equal, best = replays
    summaries = [each.summary for each in replays]
    write_atomically(out / "summary.json", (json.dumps([s.as_dict() for s in summaries], indent=2) + "\n").encode())
    write(out, demo_page(window, found, equal, best, static_bins, live, commands))
    console.print(table(*summaries))
    console.print(
        f"Done in {time.perf_counter() - began:.0f} s. Report:", (out / "report.html").resolve(), soft_wrap=True
    )
