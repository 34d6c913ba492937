"""The Scheduler port on pyslurm, for nodes and jobs; reservations, configuration and time come from
Slurm's commands.

pyslurm's version must match Slurm's, and ``import pyslurm`` without a usable slurm.conf ends the
interpreter with status 1, which cannot be caught. So the import is first tried in a process of its
own, and done only when the backend is used. Written for pyslurm 22.5 and later (``Nodes.load()``,
``Jobs.load()``); with slurmctld down a call takes about 9 s.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bftrainer.cluster.model import NodeView, Observation, PendingJob
from bftrainer.decide.domain.checks import Check
from bftrainer.errors import CommandError, SchedulerError, UserError
from bftrainer.system import command
from bftrainer.system.own_programs import code_command
from bftrainer_clusters.slurm.hostlists import HostLists
from bftrainer_clusters.slurm.observe import SlurmScheduler
from bftrainer_clusters.slurm.setup import parse_version
from bftrainer_clusters.slurm.states import node_view
from bftrainer_clusters.slurm.text import NOT_ELIGIBLE

_PROBE = "import pyslurm; pyslurm.Nodes.load; pyslurm.Jobs.load; print(pyslurm.__version__)"

REPOSITORY = "https://github.com/PySlurm/pyslurm"


def probe(env: Mapping[str, str] | None = None, timeout_s: float = 30.0) -> str:
    """Return pyslurm's version, if it can be imported here. Raises
    :class:`~bftrainer.errors.UserError` if not.
    """
    try:
        printed = command.run(code_command(_PROBE), timeout_s=timeout_s, env=env)
    except CommandError as error:
        raise UserError(
            f"pyslurm cannot be used here ({error.problem}); set slurm.backend = 'commands'"
        ) from error
    return printed.strip().rpartition("\n")[2]  # above, what was printed during the import


def pyslurm_check(slurm_version: str, is_used: bool, version: Callable[[], str] = probe) -> Check:
    """Check whether the installed pyslurm fits this Slurm: major and minor version must be the
    same, patches count separately.

    ``slurm_version`` is SLURM_VERSION, such as ``22.05.8``; ``version`` returns pyslurm's, and is
    called only where ``is_used``. Raises ``SchedulerError`` for a text without a version.
    """
    release = parse_version(slurm_version)
    wanted = f"{release[0]}.{release[1]}"
    if not is_used:
        detail = f'not used; slurm.backend = "pyslurm" would need {wanted}.x'
        return Check.ok("pyslurm", detail, required=False)
    remedy = (
        f"pip install 'pyslurm=={wanted}.*', or the tag v{wanted}.N of {REPOSITORY} if the package "
        'index lacks that version; or set slurm.backend = "commands"'
    )
    try:
        installed = version()
        fits = parse_version(installed) == release
    except (UserError, SchedulerError) as error:
        return Check.broken("pyslurm", str(error), remedy)
    if not fits:
        detail = f"pyslurm {installed} is not for Slurm {slurm_version}, which needs {wanted}.x"
        return Check.broken("pyslurm", detail, remedy)
    return Check.ok("pyslurm", f"{installed}, for Slurm {slurm_version}")


def _import_probed(env: Mapping[str, str]) -> Any:
    probe(env)
    return importlib.import_module("pyslurm")


@dataclass
class PyslurmScheduler:
    """Observes Slurm by pyslurm. ``commands`` reads what pyslurm does not; ``load`` returns the
    module, and is called with the environment at the first observation.
    """

    commands: SlurmScheduler = field(default_factory=SlurmScheduler)
    load: Callable[[Mapping[str, str]], Any] = _import_probed
    _module: Any = None

    def observe(self) -> Observation:
        """Observe the cluster in the order of SlurmScheduler: jobs, nodes, time. Raises
        ``SchedulerError`` if slurmctld does not answer.
        """
        self.commands.check_budget()
        if self._module is None:
            self._module = self.load(self.commands.calls.env)
        try:
            jobs, nodes = self._module.Jobs.load(), self._module.Nodes.load()
        except self._module.RPCError as error:
            raise SchedulerError(f"pyslurm: {error}") from error
        # Errors in pyslurm's values become SchedulerErrors there, as errors in a command's text do.
        views, pending_jobs = command.parsed(
            ["pyslurm"], "", lambda _: (_node_views(nodes), _all_pending(jobs))
        )
        return self.commands.observe_rest(views, pending_jobs)


def _node_views(nodes: Any) -> tuple[NodeView, ...]:
    return tuple(_node_view(node) for node in nodes.values())


def _all_pending(jobs: Any) -> tuple[PendingJob, ...]:
    lists = HostLists()
    return tuple(
        _pending_job(job, lists) for job in jobs.values() if job.state in ("PENDING", "EXPEDITING")
    )


def _node_view(node: Any) -> NodeView:
    """Build the view of a node from pyslurm's node."""
    return node_view(
        str(node.name),
        str(node.state),
        partitions=_words_of(getattr(node, "partitions", ())),
        gres=_gres_text(getattr(node, "configured_gres", None)),
        cpus=int(getattr(node, "total_cpus", 0) or 0),
    )


def _pending_job(job: Any, lists: HostLists) -> PendingJob:
    """Build a pending job from pyslurm's; a start time of 0 or None means that none is planned."""
    return PendingJob(
        id=str(job.id),
        user=str(getattr(job, "user_name", "") or ""),
        partitions=_words_of(job.partition),
        size=int(job.num_nodes or 0),
        starts_s=float(job.start_time) if job.start_time else None,
        nodes=lists.read(job.scheduled_nodes or ""),
        is_eligible=getattr(job, "state_reason", None) not in NOT_ELIGIBLE,
    )


def _words_of(value: object) -> tuple[str, ...]:
    """Return the words of a text with commas, or of a sequence; none of any other value."""
    words: Iterable[object] = ()
    if isinstance(value, str):
        words = value.split(",")
    elif isinstance(value, (list, tuple)):
        words = value
    return tuple(str(word) for word in words if word)


def _gres_text(value: object) -> str:
    """Write pyslurm's GRES as Slurm does: ``{"gpu": {"a100": 4}}`` or ``{"gpu:a100": 4}`` ->
    ``gpu:a100:4``.
    """
    if not isinstance(value, Mapping):
        return str(value or "")
    words = []
    for name, count in value.items():
        if isinstance(count, Mapping):
            words += [f"{name}:{kind}:{number}" for kind, number in count.items()]
        else:
            words.append(f"{name}:{count}")
    return ",".join(words)
