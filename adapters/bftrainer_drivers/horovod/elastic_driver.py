"""Horovod's ElasticDriver, adapted to nodes that leave without warning. Written against Horovod
0.28.1.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from horovod.runner.common.util.network import Wire
from horovod.runner.elastic.discovery import HostDiscovery
from horovod.runner.elastic.driver import ElasticDriver
from horovod.runner.elastic.registration import FAILURE, READY
from horovod.runner.elastic.worker import HostsUpdatedRequest, HostUpdateResult

from bftrainer.errors import InputFileError
from bftrainer_drivers.common.membership import Member
from bftrainer_drivers.horovod.discovery_script import DiscoveryScript
from bftrainer_drivers.horovod.in_worker import LOST_A_MEMBER
from bftrainer_drivers.horovod.plain_pickle import Addresses
from bftrainer_drivers.horovod.rendezvous import Callbacks, RendezvousServer

# Notifies workers, with a deadline for every step: rank 0 of changed nodes, survivors of a lost
# worker. Horovod 0.28.1's own client has no deadline: it waits forever for a stopped process, while
# its caller holds the lock that discovery needs.

TIMEOUT_S = 2.0


def notify(addresses: Addresses, key: bytes) -> bool:
    """Tell a worker that the hosts have changed; return whether it has accepted the notice.

    Workers ignore a notice that is not newer than the last one. Stock time stamps are whole
    seconds; these are milliseconds. ``mixed``: after ``removed`` the remaining workers would skip
    the synchronization in which a worker announced a moment later waits.
    """
    now_ms = time.time_ns() // 1_000_000
    return _notify_worker(HostsUpdatedRequest(now_ms, HostUpdateResult.mixed), addresses, key)


def notify_of_loss(addresses: Addresses, key: bytes) -> bool:
    """Tell a worker to leave its group, which has lost a member (see ``in_worker.py``); return
    whether it has received that.
    """
    return _notify_worker(
        HostsUpdatedRequest(LOST_A_MEMBER, HostUpdateResult.no_update), addresses, key
    )


def _notify_worker(request: HostsUpdatedRequest, addresses: Addresses, key: bytes) -> bool:
    """Send a notice to the worker's addresses, one after the other, until one of them accepts it;
    return whether one has.
    """
    return any(
        _send_notice(request, address, key) for hosts in addresses.values() for address in hosts
    )


def _send_notice(request: HostsUpdatedRequest, address: tuple[str, int], key: bytes) -> bool:
    """Send a notice to one address of a worker; return False if that fails for any reason."""
    wire = Wire(key)
    try:
        with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
            with connection.makefile("wb") as out:
                wire.write(request, out)
            with connection.makefile("rb") as answer:
                wire.read(answer)
    except Exception:
        # Wire raises bare Exception; the notice is repeated until the group has changed.
        return False
    return True


NOTICE_EVERY_S = 1.0
RECONCILE_S = 0.2
LEGAL_POLL_S = 0.02
"""Time between two looks at the announced hosts while their number is not legal: the driver's core
announces others within one of its polls.
"""
_NOT_IN_THE_GROUP = ",".join(["-1"] * 6).encode()


class AnnouncedHosts(HostDiscovery):  # type: ignore[misc]  # Horovod has no types
    """The hosts that Horovod may use: labels and slots, of the members whose nodes the discovery
    script prints.
    """

    def __init__(self, script: DiscoveryScript) -> None:
        self._script = script
        self._members: tuple[Member, ...] = ()
        self._slots_of_node: dict[str, int] = {}
        self._complaint = ""
        self._lock = threading.Lock()  # members and script change together

    def announce(self, members: Sequence[Member]) -> None:
        """Let the script print the nodes of these members. Raises ``OSError``."""
        with self._lock:
            self._script.publish([member.host for member in members])
            self._members = tuple(members)

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Called by Horovod, which compares by value and needs a new dict each time.

        A member has the slots that the script prints for its node, and at most its own; several
        members of a node share them in their order. While the script cannot be read, its last
        content stays in force: Horovod would end the run for an error at its first call.
        """
        with self._lock:
            left = dict(self._read())
            available: dict[str, int] = {}
            for member in self._members:
                slots = min(member.host.slots, left.get(member.host.node, 0))
                if slots:
                    available[member.label] = slots
                    left[member.host.node] -= slots
            return available

    def _read(self) -> dict[str, int]:
        """Read the slots of each node from the script; the last ones if it cannot be read."""
        try:
            self._slots_of_node = self._script.read()
        except InputFileError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                print(f"host discovery: {error}; the last hosts stay in force", flush=True)
        return self._slots_of_node


class FragmentDriver(ElasticDriver):  # type: ignore[misc]  # Horovod has no types
    """Level-triggered where the stock driver is edge-triggered.

    - A notice of changed hosts is repeated until the group has changed. Stock: sent once, lost if
      rank 0 does not listen yet.
    - A group is formed of the hosts that are announced at that moment. Stock: of the last poll, up
      to 1 s before.
    - No thread talks to a worker while it holds the lock of discovery.
    - All workers of a group that has lost one are told to leave it. Stock: those that wait for
      other survivors wait on.
    - A group forms once ``may_form`` accepts its number of hosts. Stock: of all hosts at once.
    """

    def __init__(
        self,
        rendezvous: RendezvousServer,
        hosts: AnnouncedHosts,
        on_formed: Callable[[list[str]], None],
        may_form: Callable[[int], bool],
    ) -> None:
        self._hosts = hosts
        self._on_formed = on_formed
        self._may_form = may_form
        self._listening: dict[tuple[str, int], tuple[Addresses, bytes]] = {}
        self._notified_labels: object = None
        """The hosts of the last notice that rank 0 has accepted; None before the first one."""
        self._notified_s = 0.0
        self._changed = threading.Event()
        self._forming = threading.Lock()
        self._notified_workers: set[tuple[str, int]] = set()
        # A label is never used twice, so a blacklisted one need not return (no cooldown_range).
        # Horovod counts slots and knows no list of sizes, so may_form decides. No reset limit:
        # every rescale would count.
        super().__init__(
            rendezvous,
            hosts,
            min_num_proc=1,
            max_num_proc=None,
            timeout=24 * 3600,
            reset_limit=None,
        )
        rendezvous.start(Callbacks(self.place_in_next_group, self.register_worker_server))
        threading.Thread(target=self._repeat_notice, name="notices", daemon=True).start()

    def announce(self, members: Sequence[Member]) -> None:
        """Replace the hosts that Horovod may use."""
        self._hosts.announce(members)
        self._refresh_hosts()
        self._changed.set()

    def place_in_next_group(self, host: str, slot: int) -> bytes:
        """Return the rank in the next group of a worker that has left the last one, for the
        rendezvous server.

        Horovod's ``record_ready`` blocks until all workers have left the last group. The next
        group is formed then, so the rank is looked up after this call.
        """
        if not self.has_rank_assignment(host, slot):
            return _NOT_IN_THE_GROUP
        self.record_ready(host, slot)
        answer: str = self.get_slot_info(host, slot).to_response_string()
        return answer.encode("ascii")

    def register_worker_server(
        self, host: str, slot: int, addresses: Addresses, secret_key: bytes
    ) -> None:
        """Record where a worker receives notices."""
        self._listening[host, slot] = (addresses, secret_key)
        self._changed.set()

    def stragglers(self) -> tuple[set[tuple[str, int]], bool]:
        """Return the workers (label, slot) that have not left the group, and whether other workers
        wait for them.
        """
        registry = self._worker_registry
        arrived = set(registry.get(READY)) | set(registry.get(FAILURE))
        group = {
            (label, info.local_rank)
            for label, infos in self.host_assignments.items()
            for info in infos
        }
        return group - arrived, bool(arrived)

    def free_survivors(self) -> None:
        """Tell the workers that are still in the group, which has lost a member, to leave it;
        returns at once.
        """
        threading.Thread(
            target=self._dismiss_stragglers,
            args=(self._rendezvous.group,),
            name="free survivors",
            daemon=True,
        ).start()

    def end_now(self) -> None:
        """Let no group form any more; ``stop`` would wait for discovery."""
        self._shutdown.set()

    def notified_workers(self) -> set[tuple[str, int]]:
        """Return the workers (label, slot) of this group that have received the notice of
        :meth:`free_survivors`.
        """
        return set(self._notified_workers)

    def _dismiss_stragglers(self, group: int) -> None:
        """Tell all stragglers of this group at the same time to leave it. No group forms meanwhile:
        a notice that arrives later would end the next group.
        """
        with self._forming:
            stragglers, _ = self.stragglers()
            listening = {
                key: self._listening[key] for key in sorted(stragglers) if key in self._listening
            }
            if self._rendezvous.group != group:
                return
            tellers = [
                threading.Thread(target=self._notify_worker, args=item, daemon=True)
                for item in listening.items()
            ]
            for teller in tellers:
                teller.start()
            for teller in tellers:
                teller.join()

    def _notify_worker(self, key: tuple[str, int], listener: tuple[Addresses, bytes]) -> None:
        if notify_of_loss(*listener):
            self._notified_workers.add(key)

    def _refresh_hosts(self) -> None:
        with self._wait_hosts_cond:
            self._host_manager.update_available_hosts()
            self._wait_hosts_cond.notify_all()

    def _activate_workers(self, min_num_proc: int) -> None:
        """Form the next group once the number of announced hosts is legal; called by Horovod."""
        with self._forming:
            self._refresh_hosts()
            while not self._may_form(self._hosts_left()) and not self.finished():
                time.sleep(LEGAL_POLL_S)
                self._refresh_hosts()
            super()._activate_workers(min_num_proc)
            self._notified_workers.clear()

    def _hosts_left(self) -> int:
        """Return how many announced hosts Horovod would use: a host whose worker failed is not used
        again.
        """
        return len(self._host_manager.current_hosts.host_assignment_order)

    def _update_host_assignments(self, current_hosts: Any) -> Any:
        pending = super()._update_host_assignments(current_hosts)
        self._on_formed([label for label, slots in self.host_assignments.items() if slots])
        return pending

    def _notify_workers_host_changes(self, current_hosts: Any, update_res: Any) -> None:
        """Called by Horovod, which holds its lock: the notice is sent by the thread."""
        self._changed.set()

    def _repeat_notice(self) -> None:
        """Repeat the notice of changed hosts to rank 0 until the group has changed; runs in a
        thread.
        """
        while not self.finished():
            self._changed.wait(RECONCILE_S)
            self._changed.clear()
            current = self._host_manager.current_hosts
            if current.count_available_slots() < 1:
                continue
            rank_0 = self.get_coordinator_info()
            if rank_0 is None:
                continue
            target_assignments, _ = self._get_host_assignments(current)
            target_labels = sorted(target_assignments)
            is_recent = (
                target_labels == self._notified_labels
                and time.monotonic() - self._notified_s < NOTICE_EVERY_S
            )
            listener = self._listening.get((rank_0.hostname, rank_0.local_rank))
            if target_assignments == self.host_assignments or is_recent or listener is None:
                continue
            if notify(*listener):
                self._notified_labels = target_labels
                self._notified_s = time.monotonic()
