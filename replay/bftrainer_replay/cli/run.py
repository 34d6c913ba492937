"""``bftrainer replay run``: replays one workload on one log under one policy."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import FILE, POLICY, SOLVER
from bftrainer.console.cli.output import note, say
from bftrainer.console.cli.tables import name_column, number_column, show_table
from bftrainer.console.cli.topics import CommandWithTopics
from bftrainer.counted import counted
from bftrainer.errors import UserError
from bftrainer_replay.cli.choices import (
    DECIDE_ON,
    SHARED_BY,
    cost_model_option,
    folder_beside,
    folder_option,
    write_errors_reported,
)
from bftrainer_replay.cli.log_options import TOPICS_OF_LOGS, LogChoice, log_options, window_of
from bftrainer_replay.cli.sweeping import progress_over_time
from bftrainer_replay.cli.workload_options import (
    admission_option,
    checkpoint_option,
    forward_option,
    objective_and_forward,
    objective_option,
    remarks_on,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bftrainer.decide.domain.model import Curve
    from bftrainer_replay.simulation.by_user import UserOutcome
    from bftrainer_replay.simulation.summary import Summary

KNOWN, LEARN = "known", "learn"
"""Words of ``--curves``."""


_TOPICS = {
    "Trainers": ("--model", "--noise", "--lessons", "--users"),
    "Model of the replay": (
        "--solver",
        "--forward-s",
        "--checkpoint-s",
        "--cost-model",
        "--decide-on",
        "--seed",
    ),
    **TOPICS_OF_LOGS,
}


@click.command(cls=CommandWithTopics, topics=_TOPICS)
@log_options
@click.option(
    "--trainers",
    required=True,
    type=FILE,
    help="Trainer table (job,Tcup,Tcdw,Jmin,Jmax,Pmax,Tsub, optionally "
    "model,priority,Tstart,user), in the format that "
    "`replay workload` writes.",
)
@click.option(
    "--curves",
    multiple=True,
    metavar="FILE|HOW",
    help="FILE: throughput curves (model,nodes_1,nodes_2,...).  [default: the paper's Table 2]  "
    "HOW: known, or learn (the policy is told no curves, and measures them). Specify FILE, HOW "
    "or both.",
)
@click.option("--noise", default=0.0, help="Relative error of a measurement, like 0.1.")
@click.option(
    "--lessons",
    type=SHARED_BY,
    default="model",
    help="Share measurements between trainers of one model, or keep them per trainer.",
)
@click.option(
    "--model",
    metavar="NAME",
    help=(
        "Use the curve of this model (such as shufflenet) for all trainers.  [default: the "
        "model column]"
    ),
)
@click.option(
    "--policy",
    type=POLICY,
    default="bftrainer",
    metavar="NAME",
    help="A policy's name, or module:function.",
)
@click.option("--solver", type=SOLVER, default="exact", help="Solver of the allocation problem.")
@forward_option
@admission_option
@objective_option
@click.option(
    "--users",
    "user_mode",
    type=click.Choice(["share", "first-come", "equal", "one-owner"]),
    default="one-owner",
    help="How the users of the table's column `user` come to nodes: `share`, as their pilots "
    "split them (nodes.share); "
    "`first-come`, without giving any up; `equal`, divided at every event; or one pilot for "
    "all trainers.",
)
@checkpoint_option
@cost_model_option
@click.option(
    "--decide-on",
    type=DECIDE_ON,
    default="all",
    help="Decide at all events, or at pool changes only.",
)
@click.option("--seed", default=0, help="Random seed for tie-breaking and measurement noise.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@folder_option("replay")
def run(
    choice: LogChoice,
    trainers: Path,
    curves: tuple[str, ...],
    noise: float,
    lessons: str,
    model: str | None,
    policy: str,
    solver: str,
    forward_s: float | None,
    max_parallel: int | None,
    objective: str | None,
    user_mode: str,
    checkpoint_s: float | None,
    cost_model: str,
    decide_on: str,
    seed: int,
    as_json: bool,
    out: Path | None,
) -> None:
    """Replay a workload on the idle nodes of LOG under a policy.

    Writes summary.json, trainers.csv, decisions.csv.gz and timeline.png into DIR.

    \b
    Example:
      bftrainer replay generate --nodes 1024 --days 7 --seed 1 --out sample.csv.gz
      bftrainer replay workload hpo --count 1000 --spacing-s 36 --out trainers.csv
      bftrainer replay run sample.csv.gz --trainers trainers.csv --out week1
      bftrainer replay run idle.csv --trainers t.csv --curves learn --noise 0.1 --out learned
    """
    from bftrainer.decide.allocation.chain import build_allocator
    from bftrainer.decide.policies.settings import PolicySettings
    from bftrainer.plugins import build_policy
    from bftrainer_replay.report.replay_output import write_all
    from bftrainer_replay.simulation.bounds import references
    from bftrainer_replay.simulation.by_user import ByUser, Users, outcomes_by_user
    from bftrainer_replay.simulation.learned_curves import without_curves
    from bftrainer_replay.simulation.play import Scenario, play
    from bftrainer_replay.simulation.progress import CostModel
    from bftrainer_replay.simulation.replay_world import DecideOn
    from bftrainer_replay.simulation.summary import summarize
    from bftrainer_replay.workload.workload import read_workload

    if not 0 <= noise < 1:
        raise UserError(
            f"--noise {noise:g}: expected a relative error of at least 0 and less than 1, like 0.1"
        )
    out = out or folder_beside(choice.log, "replay")
    costs, trigger = CostModel(cost_model), DecideOn(decide_on)
    settings = PolicySettings(
        build_allocator(solver, 10.0),
        *objective_and_forward(objective, forward_s, max_parallel),
        seed,
    )
    chosen = build_policy(policy, settings)
    true_curves, is_learned = curves_of(curves)
    workload = read_workload(trainers, true_curves, model)
    window = window_of(choice)
    arrivals = workload.arrivals
    if is_learned:
        arrivals = without_curves(arrivals, by_model=lessons == "model")
    scenario = Scenario(window, arrivals, max_parallel, costs, trigger, checkpoint_s, noise, seed)
    for warning in (*workload.warnings, *remarks_on(window, arrivals)):
        note(warning)
    with progress_over_time(window.start_s, window.end_s) as begin:
        user_of = {arrival.trainer.id: arrival.user for arrival in arrivals}
        has_users = len(set(user_of.values())) > 1
        if user_mode != "one-owner" and not has_users:
            raise UserError(
                f"--users {user_mode}: the column user of {trainers} names fewer than two users"
            )
        # The policy decides for all users' trainers together, or for each user's on a part of the
        # pool.
        played = chosen
        if user_mode != "one-owner":
            played = ByUser(chosen, Users(user_mode), user_of, seed)
        outcome = play(scenario, played, on_time=begin(f"replay under {policy}"))
        by_user = outcomes_by_user(scenario, chosen, outcome) if has_users else ()
        given_up_per_h = None
        if isinstance(played, ByUser):
            given_up_per_h = sum(played.given_up) / (window.span_s / 3600)
        bounds = references(scenario, begin)
    summary = summarize(policy, scenario, outcome, bounds)
    with write_errors_reported(out):
        files = write_all(out, scenario, outcome, summary)
    if as_json:
        content = asdict(summary)
        if has_users:
            content["users"] = [asdict(user) for user in by_user]
            content["nodes_given_up_per_h"] = given_up_per_h
        click.echo(json.dumps(content))
        return
    show_table(
        (name_column(""), number_column(policy)), [(name, cell(summary)) for name, cell in _ROWS]
    )
    if has_users:
        _show_users(by_user, given_up_per_h)
    _say_where_work_ran_out(summary)
    say(f"Written: {', '.join(str(path) for path in files)}")


def _show_users(by_user: Sequence[UserOutcome], given_up_per_h: float | None) -> None:
    """Print each user's outcome beside that of the same trainers alone on a fixed part of the
    nodes.

    With n users, that part is every n-th node.
    """
    rows = [
        (
            outcome.user,
            f"{outcome.one_node_h:,.0f}",
            f"{outcome.own_part_h:,.0f}",
            f"{outcome.relative:.2f}",
        )
        for outcome in by_user
    ]
    heads = ("user", "one-node hours", "on own nodes", "relative")
    show_table((name_column(heads[0]), *map(number_column, heads[1:])), rows)
    given_up = ""
    if given_up_per_h is not None:
        given_up = f"; {given_up_per_h:,.1f} nodes given up for other users per hour"
    say(f"own nodes: one of {counted(len(by_user), 'node')}, as the user's alone{given_up}")


def _say_where_work_ran_out(summary: Summary) -> None:
    """Print when trainers ran out of work before the end of the log, if they did.

    After that, nodes are idle whatever the policy decides: U, which compares with other replays, is
    too low; or the no-cost bound is, if its replay (without rescale costs) ran out.
    """
    if summary.work_ran_out_at is not None:
        say(
            f"Trainers ran out of work at {summary.work_ran_out_at}: after that, nodes stayed "
            "idle, which "
            "lowers U. Add trainers, or reduce --hours."
        )
    if summary.bound_work_ran_out_at is not None:
        say(
            "Without rescale costs, trainers ran out of work at "
            f"{summary.bound_work_ran_out_at}: the no-cost bound of more "
            "trainers is higher."
        )


def curves_of(values: Sequence[str]) -> tuple[Mapping[str, Curve], bool]:
    """Return the true throughput curves by model, and whether the policy has to learn them.

    ``values`` are those of ``--curves``, at most one file and one word. Raises :class:`UserError`.
    """
    from bftrainer_replay.workload.curves import TABLE_2, read_curves

    words = [text for text in values if text in (KNOWN, LEARN)]
    files = [text for text in values if text not in words]
    if len(words) > 1 or len(files) > 1:
        raise UserError(
            f"--curves {' --curves '.join(values)}: expected at most one FILE and one of "
            f"{KNOWN}, {LEARN}"
        )
    return read_curves(Path(files[0])) if files else TABLE_2, words == [LEARN]


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{fraction:.1%}"


_ROWS: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("work per idle node-hour", lambda s: _percent(s.work_share)),
    ("  of pools, beside it", lambda s: _percent(s.pool_share)),
    ("  of as many plain one-node jobs instead", lambda s: _percent(s.plain_share)),
    ("hours until a trainer is done, mean", lambda s: s.done.text(s.done.mean_h)),
    (
        "  95th percentile / last",
        lambda s: f"{s.done.text(s.done.p95_h)} / {s.done.text(s.done.last_h)}",
    ),
    ("efficiency U", lambda s: _percent(s.efficiency)),
    ("  no-cost bound", lambda s: _percent(s.no_cost_bound)),
    ("  start bound", lambda s: _percent(s.start_bound)),
    ("outcome, million samples", lambda s: f"{s.outcome_samples / 1e6:,.0f}"),
    ("  in one-node hours", lambda s: f"{s.outcome_one_node_h:,.0f}"),
    ("  static nodes, million samples", lambda s: f"{s.static_outcome_samples / 1e6:,.0f}"),
    ("lost to preemption, million samples", lambda s: f"{s.preemption_cost_samples / 1e6:,.0f}"),
    ("lost to rescaling, million samples", lambda s: f"{s.rescale_cost_samples / 1e6:,.0f}"),
    ("idle node-hours", lambda s: f"{s.resource_integral_node_h:,.0f}"),
    ("  left unused", lambda s: f"{s.unused_node_h:,.0f}"),
    ("eq-nodes", lambda s: f"{s.eq_nodes:,.1f}"),
    ("trainers completed of submitted", lambda s: f"{s.completed:,} of {s.submitted:,}"),
    ("preemptions / planned rescales", lambda s: f"{s.preemptions:,} / {s.rescales:,}"),
    ("pool events / decisions", lambda s: f"{s.pool_events:,} / {s.decisions:,}"),
    (
        "decision p50 / p99 / max, ms",
        lambda s: (
            f"{1e3 * s.decision_s.p50:.2f} / {1e3 * s.decision_s.p99:.2f} / "
            f"{1e3 * s.decision_s.max:.2f}"
        ),
    ),
    ("replay took, s", lambda s: f"{s.wall_s:.1f}"),
)
