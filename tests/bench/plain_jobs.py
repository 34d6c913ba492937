"""Plain preemptible jobs against bftrainer, on ten logs and five workloads: ``python
tests/bench/plain_jobs.py``.

    python tests/bench/plain_jobs.py [--logs A,B] [--workloads A,B] [--factors 1,3] [--hours 96]
    [--policies A,B] python tests/bench/plain_jobs.py --beside-pool [--logs A,B] [--hours 96]
    [--start-s 20] [--confirm-s 10] [--trainings 100]

One line per replay: work in one-node hours per idle node-hour, and the hours from submission until
a trainer is done (mean, 95th percentile, last; ``+`` if some are not done). The work of a workload
is 60 % of the idle node-hours, submitted in the first 3 % of the time.

``--beside-pool``: how the idle node-hours of a log (no idle time is too short) are spent by
trainings of up to 64 nodes and a pool of one-node work, which last: in work (of it one-node hours),
lost until a node is offered (``--confirm-s``), as it starts (``--start-s``) or as a training is
rescaled, or left idle; plain one-node jobs instead; and the trainings' samples over those without
the pool. Logs are those of ../shared/data or $BFTRAINER_DATA; a missing one is left out.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from bftrainer.decide.allocation.chain import build_allocator
from bftrainer.decide.allocation.objectives import OBJECTIVES, rate_of_one, usual_objective
from bftrainer.decide.domain.events import PoolChanged
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer.decide.policies.plain import Plain
from bftrainer.errors import BFTrainerError
from bftrainer_replay.analysis.plain_jobs import plain_jobs
from bftrainer_replay.analysis.window_fragments import fragments_of, pool_sizes_of
from bftrainer_replay.cli.log_options import LogChoice, window_of
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.logs.source import ImportOptions
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.simulation.time_to_done import TimeToDone, fluid_bound, time_to_done
from bftrainer_replay.workload.curves import read_curves
from bftrainer_replay.workload.workload import one_node_pool

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
SUMMIT = "summit-2021-02/summit-2021-02-events.csv.gz"
COLUMNS = "summit-2021-02/summit-nodes-in-column-order.txt"
CURVES = "summit-trainers-table2/scaling-samples-per-second.csv"
# name: (log, start, its first and last line of the list of columns)
LOGS: dict[str, tuple[str, str | None, tuple[int, int] | None]] = {
    "KTH-SP2": ("pwa-swf/KTH-SP2-1996-2.1-cln.swf.gz", None, None),
    "Summit-1": (SUMMIT, "2021-02-10T20:21:15", (0, 1024)),
    "Theta": ("theta-lumos-2023/data_theta.csv.gz", None, None),
    "Mira-1": ("mira-2018-weeks/wk1.log.gz", None, None),
    "wagap": ("wagap-2013-nodeids/wagap-2013.swf.gz", None, None),
    "Thunder": ("pwa-swf/LLNL-Thunder-2007-1.1-cln.swf.gz", None, None),
    "Summit-2": (SUMMIT, "2021-02-10T20:21:15", (1024, 2048)),
    "Summit-later": (SUMMIT, "2021-02-17T20:21:15", (0, 1024)),
    "Mira-3": ("mira-2018-weeks/wk3.log.gz", None, None),
    "phillips": ("xdmod-sacct-nodelist/phillips.log.gz", None, None),
}
POOL_LOGS = ("Summit-1", "Mira-1", "Theta", "KTH-SP2", "Thunder")
WORKLOADS = (
    "identical",
    "diverse",
    "min2",
    "large",
    "small",
)  # and endless, 1,100 trainings that are there at once
POLICIES = ("plain", "10", "35", "100", "soon", "fair", "most")
WORK, SUBMITTED = 0.6, 0.03


def window(
    folder: Path, name: str, hours: float, scratch: Path, debounce_s: float = 10.0
) -> LogWindow:
    """The log's window; Summit's of 1,024 columns."""
    path, start, lines = LOGS[name]
    node_list, importing = None, ImportOptions(skip_bad=name == "wagap", debounce_s=debounce_s)
    if lines is not None:
        node_list = scratch / f"{name}.txt"
        node_list.write_text("\n".join((folder / COLUMNS).read_text().split()[slice(*lines)]))
    return window_of(LogChoice(folder / path, start, hours, None, node_list, importing))


def workload(kind: str, here: LogWindow, curves: Path, factor: float) -> tuple[Arrival, ...]:
    """Trainers with the measured curves, their work in proportion to the idle node-time."""
    models = read_curves(curves)
    count = {"large": 20, "small": 2000, "endless": 1100}.get(kind, 200)
    smallest = {"min2": 2, "large": 4}.get(kind, 1)
    each_s = WORK * pool_sizes_of(here).node_s() / count
    made = []
    for i in range(count):
        curve = models[sorted(models)[i % 7]] if kind == "diverse" else models["shufflenet"]
        blank = Trainer(f"t{i:04d}", curve, smallest, 64, 18.0 * factor, 12.0 * factor)
        length = (
            each_s
            * (0.25 + 1.5 * (i * 7919 % count) / count if kind == "diverse" else 1.0)
            * rate_of_one(blank)
        )
        if kind == "endless":
            made.append(Arrival(here.start_s, blank))
            continue
        at_s = here.start_s + SUBMITTED * here.span_s * i / count
        made.append(Arrival(at_s, replace(blank, samples_total=length)))
    return tuple(made)


def policy(name: str) -> tuple[Policy, int | None]:
    """The policy of a column, and its P_jmax."""
    if name == "plain":
        return Plain(), None
    places = int(name) if name.isdecimal() else None
    objective = OBJECTIVES[usual_objective(places) if places else name]
    return BFTrainer(build_allocator("exact", 10.0), objective, objective.forward_s), places


def offered(raw: LogWindow, confirm_s: float) -> LogWindow:
    """A node joins once it has been idle for ``confirm_s``."""
    found = fragments_of(raw)
    changes: dict[float, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for group, since_s, until_s in zip(
        found.group.tolist(), found.start_s.tolist(), found.end_s.tolist(), strict=True
    ):
        at_s = since_s + confirm_s * (since_s > raw.start_s)
        if at_s < until_s:
            changes[at_s][0].update(found.groups.members[group])
            changes[until_s][1].update(found.groups.members[group])
    initial = frozenset(changes.pop(raw.start_s, (set(), set()))[0])
    events = [
        PoolEvent(at_s, PoolChanged(frozenset(joined), frozenset(left)))
        for at_s, (joined, left) in sorted(changes.items())
        if at_s < raw.end_s
    ]
    return replace(raw, initial=initial, events=tuple(events))


def spent(
    raw: LogWindow, curves: Path, start_s: float, confirm_s: float, trainings: int
) -> list[float]:
    """The columns of ``--beside-pool`` after the node-hours, in percent of these."""
    here = offered(raw, confirm_s)
    idle_s, most = pool_sizes_of(raw).node_s(), int(pool_sizes_of(here).nodes.max())
    one = Trainer("t", read_curves(curves)["shufflenet"], 1, 64, 2.0, 12.0, start_s=start_s)
    trained = tuple(Arrival(raw.start_s, replace(one, id=f"t{i:04d}")) for i in range(trainings))
    both = (*trained, Arrival(raw.start_s, one_node_pool("pool", most, start_s)))
    (without, _), (runs, pool) = (
        (
            [run for run in found.runs if not run.trainer.fill],
            [run for run in found.runs if run.trainer.fill],
        )
        for each in (trained, both)
        for found in [
            play(
                Scenario(here, each, trainings, CostModel.OVERLAP),
                policy("100")[0],
                keep_entries=False,
            )
        ]
    )
    stalled_s = sum(run.stalled_node_s for run in runs)
    held_s, pool_s = sum(run.node_s for run in runs), sum(run.samples for run in pool)
    starts_s, offered_s = sum(run.node_s for run in pool) - pool_s, pool_sizes_of(here).node_s()
    (plain,) = plain_jobs(here, (most,), start_s)
    busy_s, one_node_s = (
        held_s - stalled_s,
        sum(run.samples / rate_of_one(run.trainer) for run in runs),
    )
    lost_s = (idle_s - offered_s, starts_s, stalled_s, offered_s - held_s - pool_s - starts_s)
    share = sum(run.samples for run in runs) / sum(run.samples for run in without)
    found_s = (
        busy_s,
        one_node_s,
        pool_s,
        busy_s + pool_s,
        *lost_s,
        plain.share * offered_s,
        share * idle_s,
    )
    return [100 * each / idle_s for each in found_s]


def line(done: TimeToDone) -> str:
    hours = (
        f"{hours:7.2f}" if hours is not None else "      -"
        for hours in (done.mean_h, done.p95_h, done.last_h)
    )
    return " ".join(hours) + (f" +{done.unfinished}" if done.unfinished else "")


def main() -> int:
    told = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    told.add_argument("--logs", default=",".join(LOGS))
    told.add_argument("--workloads", default=",".join(WORKLOADS))
    told.add_argument("--policies", default=",".join(POLICIES))
    told.add_argument("--factors", default="1")
    told.add_argument("--hours", type=float, default=96.0)
    told.add_argument("--scratch", type=Path, default=Path())
    told.add_argument("--beside-pool", action="store_true")
    for option, usual in (("--start-s", 20.0), ("--confirm-s", 10.0), ("--trainings", 100)):
        told.add_argument(option, type=type(usual), default=usual)
    asked = told.parse_args()
    folder = Path(os.environ.get("BFTRAINER_DATA") or BESIDE)
    if asked.beside_pool:
        print(
            "log        idle node-h trainings  (of it)  pool  both | unseen starts stalls  "
            "idle | plain jobs | samples %"
        )
        for name in asked.logs.split(",") if asked.logs != ",".join(LOGS) else POOL_LOGS:
            raw = window(folder, name, asked.hours, asked.scratch, 0.0)
            found = spent(raw, folder / CURVES, asked.start_s, asked.confirm_s, asked.trainings)
            cells = (
                "{:9.1f} {:8.1f} {:5.1f} {:5.1f} | {:6.2f} {:6.2f} {:6.2f} {:5.2f} | "
                "{:10.1f} | {:9.3f}"
            ).format(*found)
            print(f"{name:9} {pool_sizes_of(raw).node_s() / 3600:12,.0f} {cells}", flush=True)
        return 0
    windows: dict[str, LogWindow] = {}
    print(
        "log            workload  R x  policy  work %    mean     p95    last  longest wait h",
        flush=True,
    )
    for factor in map(float, asked.factors.split(",")):
        for kind in asked.workloads.split(","):
            for name in asked.logs.split(","):
                try:
                    here = windows.setdefault(
                        name, window(folder, name, asked.hours, asked.scratch)
                    )
                except (BFTrainerError, OSError) as error:
                    print(f"{name}: {error}", flush=True)
                    continue
                arrivals = workload(kind, here, folder / CURVES, factor)
                bound = fluid_bound(here, arrivals)
                start = f"{name:14} {kind:9} {factor:3g}  "
                print(f"{start}{'bound':6} {'':7} {line(bound) if bound else '-'}", flush=True)
                for each in asked.policies.split(","):
                    chosen, places = policy(each)
                    outcome = play(Scenario(here, arrivals, places), chosen, keep_entries=False)
                    work_s = sum(run.samples / rate_of_one(run.trainer) for run in outcome.runs)
                    wait_s = max(run.longest_wait_s(here.end_s) for run in outcome.runs)
                    share = 100 * work_s / pool_sizes_of(here).node_s()
                    done = line(time_to_done(here, arrivals, outcome.runs))
                    print(f"{start}{each:6} {share:7.1f} {done} {wait_s / 3600:8.2f}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
