"""``bftrainer demo``: the main job on embedded defaults. A generated log, two policies, one page."""

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
    help="The page and its data go here.",
)
def demo(out: Path) -> None:
    """Generate a week of a 1,024-node machine's idle nodes, replay it under equal share and BFTrainer, write a page.

    Beside it, for a minute, the pilot itself runs on nodes of the same log, at speed-up, with real trainers on this machine.
    Needs no input, no root and no port; takes about a minute and a half.

    \b
    Example:
      bftrainer demo --out demo
    """
    from contextlib import closing

    from rich.console import Console

    from bftrainer.allocation.exact import Exact
    from bftrainer.allocation.objectives import OBJECTIVES
    from bftrainer.plugins import build_policy
    from bftrainer.policies.settings import PolicySettings
    from bftrainer.system.files import write_atomically
    from bftrainer_replay.analysis.characterize import characterize
    from bftrainer_replay.cli.demo_pilot import RUN_S, LivePilot, live_window
    from bftrainer_replay.cli.run import table
    from bftrainer_replay.figures.costs import costs_figure
    from bftrainer_replay.figures.fragments import fragments_figure
    from bftrainer_replay.figures.idle_nodes import idle_nodes_figure
    from bftrainer_replay.figures.style import png
    from bftrainer_replay.figures.timeline import timeline_figure
    from bftrainer_replay.generation.generate import generate
    from bftrainer_replay.logs.event_log import format_time, write_event_log
    from bftrainer_replay.logs.model import cut
    from bftrainer_replay.report.demo_page import DemoChapter, DemoPage, DemoPicture, render
    from bftrainer_replay.simulation.play import Scenario, no_cost_bound, play, static_outcome
    from bftrainer_replay.simulation.summary import summarize
    from bftrainer_replay.workload.workload import hpo, submissions, write_workload

    began = time.perf_counter()
    console = Console()
    console.print(f"Generating {_DAYS:g} days of idle nodes on a {_NODES:,}-node machine (seed {_SEED}) ...")
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
    settings = PolicySettings(Exact(), OBJECTIVES["throughput"])
    outcomes, summaries = [], []
    console.print(f"Replaying {_TRAINERS:,} {_MODEL} trainers on them, under equal share and under BFTrainer ...")
    with closing(LivePilot.start(out / "log.csv.gz")) as live:
        with progress_over_time(window.start_s, window.end_s) as begin:
            static = static_outcome(scenario, on_time=begin("static nodes"))
            bound = no_cost_bound(scenario, on_time=begin("no-cost bound"))
            for name in ("equal-share", "bftrainer"):
                outcome = play(scenario, build_policy(name, settings), on_time=begin(name))
                outcomes.append(outcome)
                summaries.append(summarize(name, scenario, outcome, static, bound))
        console.print("Waiting for the pilot's minute to end ...")
        live_chapter = live.finish(live_window(window))
        live.keep(out)
    equal, best = summaries
    assert equal.efficiency is not None
    assert best.efficiency is not None
    gain = best.outcome_samples / equal.outcome_samples - 1
    page = DemoPage(
        title=f"What {found.node_hours:,.0f} idle node-hours could train",
        lead=(
            f"A generated week of a {_NODES:,}-node machine, fitted to the statistics that the paper gives of Summit. "
            f"BFTrainer turned its unfillable nodes into {best.efficiency:.1%} of the training that {found.eq_nodes:,.0f} "
            f"dedicated nodes would have done, {gain:.1%} more than sharing them out equally."
        ),
        found=found,
        summaries=(equal, best),
        chapters=(
            DemoChapter(
                "The idle nodes",
                "Nodes that the batch scheduler could not fill: many fragments are short, most node-time is in the long ones.",
                (
                    DemoPicture(
                        "Idle nodes over time",
                        "Idle nodes over the week as a step area",
                        png(idle_nodes_figure(window)),
                    ),
                    DemoPicture(
                        "Fragment lengths", "Cumulative distribution of fragment length", png(fragments_figure(window))
                    ),
                ),
            ),
            *(
                DemoChapter(
                    f"Under {summary.policy}",
                    f"{summary.completed:,} of {summary.submitted:,} trainers completed; efficiency {summary.efficiency:.1%}.",
                    (
                        DemoPicture(
                            "Nodes in training",
                            f"Idle nodes and nodes in training over time under {summary.policy}",
                            png(timeline_figure(scenario, outcome, summary)),
                        ),
                        DemoPicture(
                            "Costs",
                            f"Share of samples lost to preemption and to rescaling over time under {summary.policy}",
                            png(costs_figure(scenario, outcome, summary)),
                        ),
                    ),
                )
                for summary, outcome in ((best, outcomes[1]), (equal, outcomes[0]))
            ),
            live_chapter,
        ),
        commands=(
            f"bftrainer replay generate --nodes {_NODES} --days {_DAYS:g} --seed {_SEED} --out log.csv.gz",
            f"bftrainer replay workload hpo --model {_MODEL} --count {_TRAINERS} --spacing-s 36 "
            f"--start {format_time(window.start_s)} --out trainers.csv",
            "bftrainer replay characterize log.csv.gz --out idle",
            "bftrainer replay run --log log.csv.gz --trainers trainers.csv --policy bftrainer --out bftrainer",
            "bftrainer replay run --log log.csv.gz --trainers trainers.csv --policy equal-share --out equal-share",
        ),
    )
    write_atomically(out / "summary.json", (json.dumps([s.as_dict() for s in summaries], indent=2) + "\n").encode())
    write_atomically(out / "report.html", render(page))
    console.print(table(*summaries))
    console.print(
        f"Done in {time.perf_counter() - began:.0f} s. The page:", (out / "report.html").resolve(), soft_wrap=True
    )
