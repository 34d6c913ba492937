"""``bftrainer replay compare``: policies on the same log and workload."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import DIR, FILE, OBJECTIVES, SOLVER, NameChoice
from bftrainer.console.cli.output import note, say
from bftrainer.console.cli.tables import (
    hanging_indent,
    name_column,
    number_column,
    show_table,
    wide_option,
)
from bftrainer.console.cli.topics import CommandWithTopics
from bftrainer.counted import counted
from bftrainer.errors import UserError
from bftrainer_replay.cli.choices import cost_model_option, write_errors_reported
from bftrainer_replay.cli.log_options import TOPICS_OF_LOGS, LogChoice, log_options, window_of
from bftrainer_replay.cli.sweeping import progress_over_time
from bftrainer_replay.cli.workers import Workers, in_order, workers_option_with
from bftrainer_replay.cli.workload_options import (
    admission_option,
    checkpoint_option,
    forward_option,
    objective_and_forward,
    remarks_on,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bftrainer.decide.domain.ports import Policy
    from bftrainer.decide.policies.settings import PolicySettings
    from bftrainer_replay.comparison.compare import RankedPolicy
    from bftrainer_replay.comparison.rank_tasks import RankTask
    from bftrainer_replay.logs.model import LogWindow
    from bftrainer_replay.simulation.replay_world import Arrival


def _policies_or_all() -> tuple[str, ...]:
    """Return the values of ``--policies``."""
    from bftrainer.plugins import POLICY_GROUP, installed_names

    return ("all", *installed_names(POLICY_GROUP))


POLICIES_OR_ALL = NameChoice("policy", _policies_or_all, custom=True, parameters=True, several=True)

_SOLVE_S = 10.0
_LAST_PERMANENT_INDEX = 3
"""The index of the last figure of the ranking that a narrow terminal shows as well."""


_TOPICS = {
    "Trainers": ("--state", "--group", "--curves", "--model", "--requested"),
    "Model of the replay": (
        "--solver",
        "--forward-s",
        "--checkpoint-s",
        "--cost-model",
        "--seed",
        "--workers",
    ),
    **TOPICS_OF_LOGS,
}


@click.command(cls=CommandWithTopics, topics=_TOPICS)
@log_options
@click.option("--trainers", type=FILE, help="Trainer table.")
@click.option(
    "--state",
    type=DIR,
    help="Instead of --trainers: the unfinished trainers of the pilot with this state directory.",
)
@click.option("--group", metavar="NAME", help="With --state: only the trainers of a group.")
@click.option("--curves", type=FILE, help="Throughput curves.  [default: the paper's Table 2]")
@click.option(
    "--model",
    metavar="NAME",
    help="Use this model's curve for all trainers.  [default: the model column]",
)
@click.option(
    "--policies",
    type=POLICIES_OR_ALL,
    metavar="A,B,...",
    help=(
        "Comma-separated policies, or all installed ones.  [default: all; bftrainer and plain "
        "with --state]"
    ),
)
@click.option("--solver", default="exact", type=SOLVER, help="Solver for the bftrainer policy.")
@click.option(
    "--objective",
    type=OBJECTIVES,
    metavar="A,B,...",
    help="Objectives of the policy bftrainer, a replay for each.  [default: fair,soon,most; "
    "relative-speed with a number of "
    "trainers]",
)
@forward_option
@admission_option
@click.option(
    "--requested",
    default=8,
    metavar="N",
    help="Nodes requested per trainer, for policies with fixed sizes.",
)
@checkpoint_option
@cost_model_option
@click.option("--seed", default=0, help="Random seed for policies that break ties at random.")
@wide_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.option("--out", type=DIR, help="Output directory for the report page.")
@workers_option_with("1, so that the times of decisions are comparable", "1")
def compare(
    choice: LogChoice,
    trainers: Path | None,
    state: Path | None,
    group: str | None,
    curves: Path | None,
    model: str | None,
    policies: str | None,
    solver: str,
    objective: str | None,
    forward_s: float | None,
    max_parallel: int | None,
    requested: int,
    checkpoint_s: float | None,
    cost_model: str,
    seed: int,
    wide: bool,
    as_json: bool,
    out: Path | None,
    workers: Workers,
) -> None:
    """Rank policies on LOG by the amount of training done, with the times until trainers are done.

    The policy plain is the baseline: ordinary preemptible jobs, as many as there are nodes.
    `plain?nodes=2` has jobs of two nodes, `plain?start_s=60` jobs that take 60 s to start.
    --checkpoint-s charges every policy for what a loss of all nodes repeats.

    Without a number of trainers (--max-parallel), the policy bftrainer is replayed under its
    objectives fair, soon and most: the frontier between early results (mean) and an early last one.

    DIR/report.html is a self-contained page that works offline; DIR/pictures and DIR/data contain
    the same results as PNG and CSV.

    The efficiency U is relative to the same reference for all policies: equal share without rescale
    cost, on a constant number of nodes equal to the pool's average. A policy that cannot run these
    trainers is skipped, with a note that gives the reason. A trainer table contains no requested
    sizes and no loss curves: --requested sets the sizes, and loss curves are generated for the
    policies that use them.

    With --state, the workload is what is left of a sweep: when would it be done with idle nodes as
    in LOG, under each?

    \b
    Example:
      bftrainer replay compare idle.csv --state ~/.bftrainer --group digits
      bftrainer replay compare sample.csv.gz --trainers trainers.csv --hours 24 --out compared
      bftrainer replay compare idle.csv --trainers t.csv --policies bftrainer,afs-l,mod:fn
      bftrainer replay compare idle.csv --trainers t.csv --policies plain --checkpoint-s 300
    """
    from bftrainer.decide.allocation.chain import build_allocator
    from bftrainer.decide.allocation.objectives import usual_objective
    from bftrainer.decide.policies.settings import PolicySettings
    from bftrainer_replay.comparison.compare import rank_policy, ranked, with_sizes_and_losses
    from bftrainer_replay.comparison.rank_tasks import rank
    from bftrainer_replay.report.compare_page import compare_page
    from bftrainer_replay.report.page import write
    from bftrainer_replay.simulation.bounds import references
    from bftrainer_replay.simulation.play import Scenario
    from bftrainer_replay.simulation.progress import CostModel

    if (trainers is None) == (state is None):
        raise UserError("expected one of --trainers and --state")
    if requested < 1:
        raise UserError(f"--requested {requested}: expected 1 or more")
    allocator = build_allocator(solver, _SOLVE_S)
    frontier = "fair,soon,most" if max_parallel is None else usual_objective(max_parallel)
    settings = {}
    for name in (objective or frontier).split(","):
        chosen, chosen_s = objective_and_forward(name, forward_s, max_parallel)
        settings[name] = PolicySettings(allocator, chosen, chosen_s, seed)
    built = _built_policies(policies or ("all" if state is None else "bftrainer,plain"), settings)
    usable = {name: policy for name, policy in built.items() if policy is not None}
    window = window_of(choice)
    if trainers is not None:
        submitted, remarks = _trainers_of_table(window, trainers, curves, model)
    else:
        assert state is not None
        submitted, remarks = _trainers_of_pilot(window, state, group)
    for remark in remarks:
        note(remark)
    arrivals = with_sizes_and_losses(submitted, requested)
    scenario = Scenario(
        window, arrivals, max_parallel, CostModel(cost_model), checkpoint_s=checkpoint_s
    )
    ranking = []
    with progress_over_time(window.start_s, window.end_s) as begin:
        bounds = references(scenario, begin)
        if workers.is_this_process:
            for name, policy in usable.items():
                on_time = begin(f"replay under {name}")
                ranking.append(rank_policy(name, scenario, policy, bounds, on_time))
    if not workers.is_this_process:  # there, the progress of each is shown
        tasks = _replay_tasks(usable, settings, solver)
        note(f"{counted(len(tasks), 'replay')} on {workers.text(len(tasks))}")
        ranking += in_order(workers, rank, (scenario, bounds), tasks)
    order = ranked(ranking)
    if out is not None:
        left_out = tuple(name for name in built if name not in usable)
        command = shlex.join(["bftrainer", *sys.argv[1:]])
        with write_errors_reported(out):
            write(out, compare_page(order, scenario, choice.log.name, left_out, command))
    if as_json:
        click.echo(json.dumps([row.as_dict() for row in order], allow_nan=False))
        return
    _show_ranking(order, window, arrivals, wide)
    if out is not None:
        say(f"Report: {out / 'report.html'}")


def _show_ranking(
    order: Sequence[RankedPolicy], window: LogWindow, arrivals: Sequence[Arrival], wide: bool
) -> None:
    """Print the ranking of the policies, a lower bound on their times, and what the columns mean.

    The fluid bound are the times if all nodes were one server, which each training uses at its best
    rate per node.
    """
    from bftrainer_replay.comparison.compare import columns
    from bftrainer_replay.simulation.time_to_done import fluid_bound

    ranking_columns = columns(order)
    figures = [
        # Rank 0 is always shown; on a narrow terminal, columns of the highest rank are left out
        # first.
        number_column(heading, max(index - _LAST_PERMANENT_INDEX, 0))
        for index, (heading, _) in enumerate(ranking_columns)
    ]
    cells = [cell for _, cell in ranking_columns]
    rows = [[policy.name, *(cell(policy) for cell in cells)] for policy in order]
    show_table((name_column("policy"), *figures), rows, wide=wide)
    if (bound := fluid_bound(window, arrivals)) is not None:
        mean, last = bound.text(bound.mean_h), bound.text(bound.last_h)
        say(f"Fluid bound: no policy has a mean below {mean} h, or a last below {last} h.")
    explanation = (
        "work: one-node hours per idle node-hour. mean, p95, last: hours from submission until "
        "done; longest wait: without "
        "nodes. Loss curves are generated; fixed-size jobs have --requested nodes, plain jobs "
        "the smallest size."
    )
    say(hanging_indent("", explanation))


def _built_policies(
    policies: str, settings: Mapping[str, PolicySettings]
) -> dict[str, Policy | None]:
    """Return the policies of ``--policies`` by name; None for one that cannot run on a pool.

    ``settings`` are those of each objective: all policies get the first, and the policy bftrainer
    each of the others as well.
    """
    from bftrainer.plugins import POLICY_GROUP, installed_names

    first, *others = settings
    if policies == "all":
        built = {
            # Of all installed policies, one that cannot run is left out; one that the user names is
            # an error.
            name: _built_policy(name, settings[first], is_required=False)
            for name in installed_names(POLICY_GROUP)
        }
    else:
        names = dict.fromkeys(policies.split(","))
        built = {name: _built_policy(name, settings[first], is_required=True) for name in names}
    if "bftrainer" in built:
        for objective in others:
            policy = _built_policy("bftrainer", settings[objective], is_required=True)
            built[f"bftrainer, {objective}"] = policy
    return built


def _replay_tasks(
    usable: Iterable[str], settings: Mapping[str, PolicySettings], solver: str
) -> list[RankTask]:
    """Return the replays to run, one for each ``usable`` policy, as tasks for other processes.

    Policies have the names that :func:`_built_policies` gave them ("bftrainer, soon": its objective
    follows).
    """
    from bftrainer_replay.comparison.rank_tasks import RankTask

    first = next(iter(settings))
    tasks = []
    for name in usable:
        policy, _, objective = name.partition(", ")
        objective = objective or first
        forward_s, seed = settings[objective].forward_s, settings[objective].seed
        tasks.append(RankTask(name, policy, objective, forward_s, seed, solver, _SOLVE_S))
    return tasks


def _trainers_of_table(
    window: LogWindow, trainers: Path, curves: Path | None, model: str | None
) -> tuple[tuple[Arrival, ...], list[str]]:
    """Return the trainers of a table, and remarks for the user on how they suit the window."""
    from bftrainer_replay.workload.curves import TABLE_2, read_curves
    from bftrainer_replay.workload.workload import read_workload

    true_curves = TABLE_2 if curves is None else read_curves(curves)
    arrivals = read_workload(trainers, true_curves, model).arrivals
    return arrivals, remarks_on(window, arrivals)


def _trainers_of_pilot(
    window: LogWindow, state: Path, group: str | None
) -> tuple[tuple[Arrival, ...], list[str]]:
    """Return the unfinished trainers of a pilot, and a remark on those that cannot be replayed.

    A trainer of unknown length or speed has no time at which it would be done.
    """
    from bftrainer_replay.workload.of_pilot import unfinished_trainers

    arrivals, unknown = unfinished_trainers(state, group, window.start_s)
    if not unknown:
        return arrivals, []
    names = ", ".join(unknown)
    return arrivals, [f"left out, since their length or speed is unknown: {names}"]


def _built_policy(name: str, settings: PolicySettings, *, is_required: bool) -> Policy | None:
    """Return a policy; None with a note if it cannot run on a pool of nodes.

    If it ``is_required``, that is an error instead.
    """
    from bftrainer.plugins import build_policy

    try:
        return build_policy(name, settings)
    except UserError as error:
        if is_required:
            raise
        note(f"policy skipped: {error}")
        return None
