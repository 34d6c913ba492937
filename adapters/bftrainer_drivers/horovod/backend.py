"""Workers under Elastic Horovod: warm ones wait for the ranks that Horovod's driver gives to the
announced members.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars

from bftrainer.system.network import interface_address
from bftrainer.wires.control import STOPPED_STATUS
from bftrainer.wires.driver_events import Hung
from bftrainer.wires.environment import IN_WORKER
from bftrainer.wires.hosts_file import HostSlots
from bftrainer_drivers.common.core import Excused, GroupFormed, News, Terms, WorkerEnded
from bftrainer_drivers.common.crew import Key, end
from bftrainer_drivers.common.legal_sizes import LegalSizes
from bftrainer_drivers.common.membership import Member
from bftrainer_drivers.common.run_loop import Backend, Run
from bftrainer_drivers.common.warm_command import warm_command
from bftrainer_drivers.common.workers import WorkerProcess, exit_code
from bftrainer_drivers.horovod.discovery_script import DiscoveryScript
from bftrainer_drivers.horovod.elastic_driver import AnnouncedHosts, FragmentDriver
from bftrainer_drivers.horovod.rendezvous import RendezvousServer

# Finds workers that do not leave a group: survivors of a lost worker, and hung ones. Pure. A
# stopped or stuck process reports no error, and Horovod's driver would wait for it forever.


ARRIVED_S = 5.0
"""After an error all workers leave a group within this time: Gloo's timeout has passed for all of
them.
"""
FREE_EVERY_S = 1.0
"""Time between two notices to the same survivors; also how long workers that left without a loss
wait for the others.
"""


@dataclass(slots=True)
class HangWatch:
    """Finds the stragglers of a group that is over, by ``hang_s``. It does not watch a group of
    which all are silent: that has hung as a whole.
    """

    hang_s: float
    waiting_since_s: float | None = None
    """Since when workers that have left the group have waited for stragglers."""
    member_lost: bool = False
    """Whether a worker of this group has ended on its own: those that have not left the group are
    its survivors.
    """
    _last_notice_s: float | None = None

    def note_group(self) -> None:
        """Record that a new group has formed."""
        self.waiting_since_s = self._last_notice_s = None
        self.member_lost = False

    def needs_notice(self, stragglers: set[Key], others_wait: bool, now_s: float) -> bool:
        """Return whether to tell the stragglers now that their group is broken: at once after a
        loss, or when others have waited for :data:`FREE_EVERY_S`; then again at this interval.
        Counts as told if True.
        """
        self._note_waiting(stragglers, others_wait, now_s)
        waiting_s = 0.0 if self.waiting_since_s is None else now_s - self.waiting_since_s
        if not stragglers or not (self.member_lost or waiting_s >= FREE_EVERY_S):
            return False
        if self._last_notice_s is not None and now_s - self._last_notice_s < FREE_EVERY_S:
            return False
        self._last_notice_s = now_s
        return True

    def hung_workers(
        self,
        stragglers: set[Key],
        others_wait: bool,
        now_s: float,
        notified_workers: AbstractSet[Key] = frozenset(),
    ) -> set[Key]:
        """Return the workers to kill now, because they have not left a group that is over.

        If the others have left the group after an error and wait, the stragglers get a tenth of
        ``hang_s``, at least 5 s. Survivors of a loss that answered the notice
        (``notified_workers``) are alive and may be in a long step: they get ``hang_s``.
        """
        self._note_waiting(stragglers, others_wait, now_s)
        if self.waiting_since_s is None:
            return set()
        waiting_s = now_s - self.waiting_since_s
        if waiting_s < max(ARRIVED_S, self.hang_s / 10):
            return set()
        silent = stragglers - notified_workers if self.member_lost else stragglers
        if silent:
            return silent
        return stragglers if waiting_s >= self.hang_s else set()

    def _note_waiting(self, stragglers: set[Key], others_wait: bool, now_s: float) -> None:
        """Keep the time since when others have waited for stragglers; None while they do not."""
        if not (others_wait and stragglers):
            self.waiting_since_s = None
        elif self.waiting_since_s is None:
            self.waiting_since_s = now_s


IN_THE_WORKER = {IN_WORKER: str(Path(__file__).resolve().with_name("in_worker.py"))}
"""A worker that starts cold runs the file in ``bftrainer.progress.track``, a waiting one before it
is warm.
"""


class HorovodBackend(Backend):
    """Horovod calls :meth:`work` in a thread for each worker, and in this thread waits for the
    worker's end.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        trainer = run.trainer
        self.terms = Terms(
            is_elastic=True,
            sizes=LegalSizes.of(trainer),
            stop_s=trainer.stop_s,
            hang_s=run.settings.hang_s,
            # Horovod announces a group before its workers have met: only the script's report of its
            # size shows that it trains.
            needs_confirmation=True,
            samples=trainer.samples_total,
            first_step_s=run.first_step_s,
        )
        self._warm = warm_command(run.trainer.command)
        self._watch = HangWatch(run.settings.hang_s)
        self._script = DiscoveryScript(run.directory)
        self._members: dict[str, Member] = {}
        """By label, the members whose workers were started: Horovod's host names are labels."""
        self._end_events: dict[Key, Sequence[threading.Event]] = {}
        """By worker (label, slot), the events by which Horovod says that it is to end."""
        self._started = False
        """Whether Horovod's driver runs: from the first announcement of members on."""

    def open(self) -> None:
        settings = self.run.settings
        self._rendezvous = RendezvousServer(
            interface_address(settings.interface), settings.allow_from
        )
        self._script.publish(())
        self._hosts = AnnouncedHosts(self._script)
        self._driver = FragmentDriver(
            self._rendezvous,
            self._hosts,
            lambda labels: self.run.tell(GroupFormed(tuple(labels))),
            self._may_form,
        )

    def _may_form(self, nodes: int) -> bool:
        """Return whether a group of so many nodes may form: to train, or else to save and leave.

        A group of a size that is not legal may form only to save and leave. With
        ``progress.track``, the script reads the stop request before the first step of the group. A
        script that has reported nothing (``last_report_s`` is None) does not use
        ``progress.track``, and would train.
        """
        state = self.run.state
        saves = state.leaving is not None and state.silence.last_report_s is not None
        return saves or self.terms.sizes.allow(nodes)

    def start(self, member: Member) -> None:
        self._members[member.label] = member
        first = IN_THE_WORKER | self.run.visible_gpus(member.host)
        self.run.warm_up(member, self._warm, first, ahead=False)

    def announce(self, members: Sequence[Member]) -> None:
        self._driver.announce(members)
        if not self._started and members:
            self._started = True
            threading.Thread(
                target=self._driver.start, args=(1, self.work), name="start", daemon=True
            ).start()

    def note(self, news: News) -> None:
        match news:
            case GroupFormed():
                self._watch.note_group()
            case WorkerEnded(member, exit) if exit.is_lost or exit.has_failed:
                self._watch.member_lost |= member in self.run.state.membership.group

    def is_over(self) -> bool:
        return self._started and bool(self._driver.finished()) and not self.run.state.joined

    def tick(self, now_s: float) -> None:
        """End workers that Horovod has told to end, that the group no longer has, or that do not
        leave a group that is over (:class:`HangWatch`).
        """
        stragglers, others_wait = self._driver.stragglers() if self._started else (set(), False)
        if self._watch.needs_notice(stragglers, others_wait, now_s):
            self._driver.free_survivors()
        hung = self._watch.hung_workers(
            stragglers, others_wait, now_s, self._driver.notified_workers()
        )
        state = self.run.state
        group = {member.label for member in state.membership.group}
        for (label, slot), worker in list(self.run.crew.joined.items()):
            end_events = self._end_events.get((label, slot), ())
            is_dismissed = state.formed_s is not None and label not in group
            if (label, slot) in hung:
                self._kill_hung(label, worker, silent_s=round(state.silence.seconds(now_s), 1))
            elif is_dismissed or any(event.is_set() for event in end_events):
                end([worker])

    def _kill_hung(self, label: str, worker: WorkerProcess, silent_s: float) -> None:
        """Report and kill a worker that has not left a group that is over. A survivor of a loss is
        excused: its node is not to blame.
        """
        self.run.events.write(Hung(worker.host.node, worker.host.fragment, silent_s))
        if self._watch.member_lost:
            worker.is_planned = True
            self.run.tell(Excused(self._members[label]))
        worker.kill()

    def shut(self) -> None:
        self._script.clear()
        if self._started:
            self._driver.end_now()
        self._rendezvous.stop()

    def work(self, slot: Any, end_events: Sequence[threading.Event]) -> tuple[int, float]:
        """Run one worker for Horovod (its ``create_worker``), to the worker's end; return exit code
        and time. If it died before it joined, another takes its rank (:meth:`_replacement_host`).
        """
        member, group = self._members[slot.hostname], self._rendezvous.group
        self._end_events[member.label, slot.local_rank] = end_events
        worker = self._run_worker(member, slot)
        status = worker.process.returncode
        if (
            status not in (0, STOPPED_STATUS)
            and not worker.is_planned
            and (refuge := self._replacement_host(member, slot, group))
        ):
            status = self._run_worker(member, slot, refuge).process.returncode
        return 0 if status == STOPPED_STATUS else exit_code(status), time.time()

    def _run_worker(
        self, member: Member, slot: Any, host: HostSlots | None = None
    ) -> WorkerProcess:
        """Let the member's worker join with its rank, perhaps on another host, and wait for its
        end.
        """
        run, address = self.run, self._rendezvous.address_for_workers
        interfaces = [run.settings.interface]
        variables = {
            **create_run_env_vars(address, interfaces, self._rendezvous.port, elastic=True),
            **create_slot_env_vars(slot),
        }
        environment = {name: str(value) for name, value in variables.items()}
        environment |= run.visible_gpus(host or member.host)
        worker = run.crew.join(member, slot.local_rank, environment, IN_THE_WORKER, host)
        worker.ended.wait()
        return worker

    def _replacement_host(self, lost: Member, slot: Any, group: int) -> HostSlots | None:
        """Return a host of the group for another worker of the same rank, if the one that died had
        not joined yet; else None.

        The others already wait for this rank in Gloo, which cannot be interrupted: after its
        timeout they would abort and lose all work since the last checkpoint (seen with Horovod
        0.28.1). So the rank joins, and leaves in the rescale that follows, because its fragment is
        withheld.
        """
        if self._rendezvous.group != group or self._rendezvous.has_joined(slot.rank):
            return None
        membership = self.run.state.membership
        alive = {label for label, _ in list(self.run.crew.joined)}
        for member in membership.group:
            if (
                member != lost
                and member.label in alive
                and member.host.fragment not in membership.withheld
            ):
                return member.host
        return None
