"""``bftrainer doctor`` on a Slurm site: its commands, its configuration, and whether it would
accept a holder. Reads only.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from bftrainer.cluster.model import Availability, NodeRequest, NodeView
from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import BFTrainerError, CommandError, UserError
from bftrainer.system import command
from bftrainer.system.users import own_name
from bftrainer_clusters.holding.holder_jobs import holder_script
from bftrainer_clusters.holding.node_times import read_times
from bftrainer_clusters.on_node import payload
from bftrainer_clusters.slurm import jobs as slurm_jobs
from bftrainer_clusters.slurm.calls import ENVIRONMENT, SlurmCalls
from bftrainer_clusters.slurm.checks import YIELD_POLL_S, judge
from bftrainer_clusters.slurm.clusters import (
    chosen_cluster,
    cluster_check,
    cluster_name,
    federation_argv,
    of_cluster,
    parse_federation,
)
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.configuration import config_text
from bftrainer_clusters.slurm.observe import SlurmScheduler
from bftrainer_clusters.slurm.pyslurm import pyslurm_check
from bftrainer_clusters.slurm.setup import has_slurmdbd, parse_partitions, partitions_argv
from bftrainer_clusters.slurm.shared_nodes import left_alone
from bftrainer_clusters.slurm.site_facts import MayHold, SiteSetup, read_site

COMMANDS = ("sbatch", "srun", "scancel", "squeue", "scontrol", "sdiag")
SLOW_END_S = 3.0
"""The holder asks every second when a node is idle; without an Epilog the answer is one or two."""
_PING = "`scontrol ping` says whether slurmctld answers"


def examine_slurm(
    settings: SlurmSettings | None,
    max_nodes: int = 1_000_000,
    by_gpu: bool = False,
    may_hold: MayHold = lambda node: True,
    give_way: str = "site",
    yield_poll_s: float = YIELD_POLL_S,
) -> list[Check]:
    """Return all checks of the site; without ``settings``, those that need no pilot
    configuration.

    ``max_nodes``: nodes.max_nodes, ``by_gpu``: nodes.unit is "gpu", ``may_hold``: by nodes.hosts
    and nodes.exclude, ``give_way``: nodes.give_way, ``yield_poll_s``: nodes.yield_poll_s.
    """
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        remedy = "add Slurm's commands to PATH, for example with `module load slurm`"
        return [Check("slurm", CheckStatus.MISSING, f"not found: {', '.join(missing)}", remedy)]
    timeout_s = 10.0 if settings is None else settings.timeout_s
    try:
        cluster = chosen_cluster(os.environ) if settings is None else settings.cluster
        config = config_text(timeout_s, ENVIRONMENT, cluster)
        if settings is None:
            facts = SiteSetup(config, parse_partitions(_ask(partitions_argv(), timeout_s, cluster)))
        else:
            facts = read_site(
                settings,
                config,
                own_name(),
                lambda argv: _ask(argv, timeout_s, cluster),
                may_hold,
                by_gpu,
            )
        federation = ""
        if has_slurmdbd(config) and not cluster:
            federation = parse_federation(_ask(federation_argv(), timeout_s))
        boxes = containers(_ask(["srun", "--help"], timeout_s), shutil.which("apptainer"))
        user = own_name()
        checks = judge(settings, facts, user, max_nodes, by_gpu, may_hold, give_way, yield_poll_s)
        is_used = settings is not None and settings.backend == "pyslurm"
        module = pyslurm_check(facts.config["SLURM_VERSION"], is_used)
    except BFTrainerError as error:
        return [Check.broken("slurm", str(error), _PING)]
    where = cluster_check(cluster, cluster_name(config), federation)
    return [
        where,
        *checks,
        module,
        boxes,
        *_observation_checks(settings, timeout_s, cluster, by_gpu),
    ]


def containers(srun_help: str, apptainer: str | None) -> Check:
    """Check which images of trainer files can be used here, by Apptainer or pyxis."""
    images = [f".sif images: {apptainer}"] if apptainer else []
    images += [".sqsh images: srun has pyxis"] if "--container-image=" in srun_help else []
    if images:
        return Check.ok("containers", "; ".join(images), required=False)
    detail = (
        "no apptainer on PATH, and no pyxis in `srun --help`: trainers with an `image` cannot start"
    )
    remedy = (
        'none without such trainers; setup = ["module load apptainer"] in the trainer '
        "file may bring it"
    )
    return Check("containers", CheckStatus.MISSING, detail, remedy, required=False)


def _observation_checks(
    settings: SlurmSettings | None, timeout_s: float, cluster: str, by_gpu: bool = False
) -> Iterable[Check]:
    """Check one observation as the pilot makes it, then a test-only submission of a holder."""
    began = time.monotonic()
    try:
        seen = SlurmScheduler(
            timeout_s=timeout_s, calls=SlurmCalls(cluster=cluster), by_gpu=by_gpu
        ).observe()
        idle = [node.name for node in seen.nodes if node.availability is Availability.FREE]
    except BFTrainerError as error:
        remedy = _PING if isinstance(error, CommandError) else "please report this line as an issue"
        yield Check.broken("look", str(error), remedy)
        return
    took_ms = 1e3 * (time.monotonic() - began)
    planned = (
        "never" if seen.planned_s is None else f"{max(seen.at_s - seen.planned_s, 0):.0f} s ago"
    )
    queue = f"{counted(len(seen.pending), 'job')} pending, last planned: {planned}"
    yield Check.ok(
        "look", f"{counted(len(seen.nodes), 'node')}, {len(idle)} idle, {queue} ({took_ms:.0f} ms)"
    )
    if settings is not None:
        if by_gpu:
            yield from left_alone(seen.nodes)
        yield _check_or_failure(lambda: _check_test_submission(settings, seen.nodes, idle, by_gpu))


def _check_test_submission(
    settings: SlurmSettings, nodes: tuple[NodeView, ...], idle: list[str], by_gpu: bool = False
) -> Check:
    """Check by ``sbatch --test-only`` that Slurm would accept a holder: its account, partition,
    QOS, options and script. Raises what the command does if not.
    """
    script = holder_script(settings.holder_script, "holder.slurm")
    members = [
        node.name
        for node in nodes
        if not settings.partition or settings.partition in node.partitions
    ]
    candidates = [node for node in idle if node in members] or members
    if not candidates:
        return Check.broken(
            "holder", f"partition {settings.partition!r} has no nodes", "set slurm.partition"
        )
    comment = slurm_jobs.comment("doctor", own_name())
    words = [str(script), settings.python, payload.__file__]
    log = script.with_name("never-written")
    request = NodeRequest(candidates[0], 3600.0)
    if by_gpu and settings.holds_parts:  # the smallest part
        request = replace(request, gpus=1, cpus=1, mib=min(settings.mem_per_gpu, 1024))
    argv = slurm_jobs.submit_argv(settings, request, comment, words, log)
    argv.insert(1, "--test-only")
    _ask(argv, settings.timeout_s, settings.cluster)
    return Check.ok("holder", f"sbatch would accept a holder on {candidates[0]} ({script})")


def holder_check(settings: SlurmSettings, nodes: tuple[NodeView, ...]) -> Check:
    """Check by ``sbatch --test-only`` that Slurm would accept a holder with these settings on one
    of these nodes.
    """
    idle = [node.name for node in nodes if node.availability is Availability.FREE]
    return _check_or_failure(lambda: _check_test_submission(settings, nodes, idle))


def _check_or_failure(look: Callable[[], Check]) -> Check:
    """Return the check of a holder; an error becomes a check that fails, or a warning if it is only
    a limit on the pilot's jobs.
    """
    try:
        return look()
    except UserError as error:
        return Check.broken("holder", str(error), "fix slurm.holder_script, or reinstall bftrainer")
    except BFTrainerError as error:
        if slurm_jobs.is_limit(str(error)):
            return Check.warning(
                "holder",
                f"a limit on the pilot's jobs is reached: {error}",
                "none if the pilot's holders are running",
            )
        return Check.broken("holder", str(error), _holder_remedy(str(error)))


def _holder_remedy(problem: str) -> str:
    """Return what a user can set where sbatch refuses a holder, such as another request for memory:
    sites may refuse that for all memory of a node.
    """
    if re.search(r"\bmem", problem, re.IGNORECASE):
        return (
            "request memory as the site wants it, such as slurm.options = "
            '["--mem-per-cpu=4000M"], or none with slurm.mem = "" '
            "(the default is --mem=0)"
        )
    return "fix the setting that sbatch rejects: partition, qos, account, mem or options"


def _ask(argv: list[str], timeout_s: float, cluster: str = "") -> str:
    return command.run(of_cluster(argv, cluster), timeout_s=timeout_s, env=ENVIRONMENT)


def measured(settings: SlurmSettings, holders: Path) -> Iterator[Check]:
    """Report what pilots of this state directory have measured: a holder's start, with the Prolog,
    and its end, with the Epilog.
    """
    times = read_times(holders)
    for name, start_s, end_s, ends in times.classes():
        of = f"nodes of class {name!r}" if name else "nodes"
        yield Check.ok(
            "holder start",
            f"{of}: ready {start_s:.0f} s after sbatch; shorter windows are not taken",
        )
        if ends and end_s >= SLOW_END_S:
            test = (
                f'"$SLURM_JOB_PARTITION" = {settings.partition}'
                if settings.partition and not settings.qos
                else (f'"$SLURM_JOB_ACCOUNT" = {settings.account or "ACCOUNT"}')
            )
            yield Check.warning(
                "holder end",
                f"{of}: idle {end_s:.0f} s after a holder's end: a main job that preempts "
                "holders waits that long for the "
                "Epilog, and would not on an idle node",
                f"let the Epilog exit at once for holders: [ {test} ] && exit 0",
            )
        elif ends:
            yield Check.ok("holder end", f"{of}: idle {end_s:.0f} s after a holder's end")
