"""Plain preemptible jobs against bftrainer, on ten logs and five workloads: ``python tests/bench/plain_jobs.py``.

    python tests/bench/plain_jobs.py [--logs A,B] [--workloads A,B] [--factors 1,3] [--hours 96] [--policies A,B]

One line per replay: work in one-node hours per idle node-hour, and the hours from submission until a trainer is done (mean,
95th percentile, last; ``+`` if some are not done). The work of a workload is 60 % of the idle node-hours, submitted in the
first 3 % of the time. Logs are those of ../shared/data or $BFTRAINER_DATA; a missing one is left out.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

from bftrainer.allocation.chain import build_allocator
from bftrainer.allocation.objectives import OBJECTIVES, rate_of_one, usual_objective
from bftrainer.domain.model import Trainer
from bftrainer.domain.ports import Policy
from bftrainer.errors import BFTrainerError
from bftrainer.policies.bftrainer import BFTrainer
from bftrainer.policies.plain import Plain
from bftrainer_replay.cli.log_options import LogChoice, window_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.logs.source import ImportOptions
from bftrainer_replay.simulation.play import Scenario, play, resource_integral_node_s
from bftrainer_replay.simulation.time_to_done import TimeToDone, fluid_bound, time_to_done
from bftrainer_replay.simulation.world import Arrival
from bftrainer_replay.workload.curves import read_curves

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
WORKLOADS = ("identical", "diverse", "min2", "large", "small")
POLICIES = ("plain", "10", "35", "100", "soon", "fair", "most")
WORK, SUBMITTED = 0.6, 0.03


def window(folder: Path, name: str, hours: float, scratch: Path) -> LogWindow:
    """The log's window; Summit's of 1,024 columns."""
    path, start, lines = LOGS[name]
    node_list, importing = None, ImportOptions(skip_bad=name == "wagap")
    if lines is not None:
        node_list = scratch / f"{name}.txt"
        node_list.write_text("\n".join((folder / COLUMNS).read_text().split()[slice(*lines)]))
    return window_of(LogChoice(folder / path, start, hours, None, node_list, importing))


def workload(kind: str, here: LogWindow, curves: Path, factor: float) -> tuple[Arrival, ...]:
    """Trainers with the measured curves, their work in proportion to the idle node-time."""
    models = read_curves(curves)
    count = {"large": 20, "small": 2000}.get(kind, 200)
    smallest = {"min2": 2, "large": 4}.get(kind, 1)
    each_s = WORK * resource_integral_node_s(here) / count
    made = []
    for i in range(count):
        curve = models[sorted(models)[i % 7]] if kind == "diverse" else models["shufflenet"]
        blank = Trainer(f"t{i:04d}", curve, smallest, 64, 18.0 * factor, 12.0 * factor)
        length = each_s * (0.25 + 1.5 * (i * 7919 % count) / count if kind == "diverse" else 1.0) * rate_of_one(blank)
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


def line(done: TimeToDone) -> str:
    hours = (f"{hours:7.2f}" if hours is not None else "      -" for hours in (done.mean_h, done.p95_h, done.last_h))
    return " ".join(hours) + (f" +{done.unfinished}" if done.unfinished else "")


def main() -> int:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("--logs", default=",".join(LOGS))
    told.add_argument("--workloads", default=",".join(WORKLOADS))
    told.add_argument("--policies", default=",".join(POLICIES))
    told.add_argument("--factors", default="1")
    told.add_argument("--hours", type=float, default=96.0)
    told.add_argument("--scratch", type=Path, default=Path())
    asked = told.parse_args()
    folder = Path(os.environ.get("BFTRAINER_DATA") or BESIDE)
    windows: dict[str, LogWindow] = {}
    print("log            workload  R x  policy  work %    mean     p95    last  longest wait h", flush=True)
    for factor in map(float, asked.factors.split(",")):
        for kind in asked.workloads.split(","):
            for name in asked.logs.split(","):
                try:
                    here = windows.setdefault(name, window(folder, name, asked.hours, asked.scratch))
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
                    share = 100 * work_s / resource_integral_node_s(here)
                    done = line(time_to_done(here, arrivals, outcome.runs))
                    print(f"{start}{each:6} {share:7.1f} {done} {wait_s / 3600:8.2f}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
