"""The group of a replica: agreed on before each step with the driver, connected by torchft's
process groups.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from bftrainer.errors import BFTrainerError
from bftrainer.progress.weights import WeightsServer, copied_from
from bftrainer.system.listening_ports import hosts_in
from bftrainer.system.sealed import SealedClient
from bftrainer.wires.environment import TRAINER_DIR
from bftrainer.wires.messages import DriverSettings
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.replicas import (
    MOST_BYTES,
    REPLICA,
    Hello,
    Keys,
    Meeting,
    NextStep,
    Turn,
    packed,
    unpacked,
)
from bftrainer.wires.typed_json import read_json

CONNECT = timedelta(seconds=10)
"""How long a new group may take to connect."""
_DRIVER_S = 30.0
"""How long the driver may take for an answer that waits for no peer."""


class Group:
    """The replicas that make a step together: agreed on with the driver, and connected for
    averages.

    After an error, no average is made until the next step.

    Args:
        state: Returns this replica's state, for a peer that is behind.
        load: Loads a peer's state.
        environment: The environment variables of the worker.
    """

    def __init__(
        self,
        state: Callable[[], object],
        load: Callable[[Any], object],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        directory = TrainerDirectory(Path(environment[TRAINER_DIR]))
        meeting = read_json(Meeting, directory.meeting)
        settings = read_json(DriverSettings, directory.driver)
        self._state, self._load = state, load
        self._key = bytes.fromhex(meeting.key)
        self._timeout = timedelta(seconds=max(1.0, settings.hang_s / 2))
        self.error: Exception | None = None
        """The error of the present step; None if there was none."""
        self.turn = Turn(0, 0, 1, 0, "", 0)
        """This replica's place in the group of the present step."""
        self._failures = 0  # steps that have failed in a row
        # Two connections to the driver: for steps, and for the keys by which peers connect.
        address = meeting.host, meeting.port
        self._step_client = SealedClient(address, self._key, _DRIVER_S)
        self._key_client = SealedClient(address, self._key, _DRIVER_S)
        allowed_hosts = hosts_in([*settings.allow_from, meeting.host, self._step_client.host])
        self._weights = WeightsServer(self._step_client.host, self._key, allowed_hosts)
        self._step_client.send(packed(Hello(environment[REPLICA], self._weights.port)))
        # Wait without a limit: a step begins when the last peer is there, and the driver's end ends
        # the connection.
        self._step_client.wait_for(None)
        self._key_client.send(packed(Hello(environment[REPLICA], 0)))
        self._peers = _peer_process_group(self._timeout)

    def agree(self, step: int) -> Turn:
        """Agree on the group of the next step, and return this replica's place in it. ``step`` is
        the number of steps that this replica has applied.

        If a peer is behind, this passes it the state; if this replica is behind, it gets a peer's
        state. If either fails, or the connection of the group, the step has :attr:`error`.
        """
        self._step_client.send(packed(NextStep(step, self._failures)))
        previous_number = self.turn.number
        self.turn = unpacked(Turn, self._step_client.receive(MOST_BYTES))
        self.error = None
        try:
            if self.turn.number != previous_number:  # another group: connect it
                self._peers.connect(
                    _prefixed_store(self._key_client, f"{self.turn.number}/"),
                    self.turn.rank,
                    self.turn.size,
                )
            timeout_s = self._timeout.total_seconds()
            if self.turn.copies:
                self._weights.pass_on(self._state(), self.turn.step, self.turn.copies, timeout_s)
            if self.turn.source:
                self._load(copied_from(self.turn.source, self._key, self.turn.step, timeout_s))
        except (RuntimeError, OSError, BFTrainerError) as error:
            self._note_failure(error)
        return self.turn

    def average(self, tensor: Any) -> None:
        """Replace the tensor by its average over the group; an error is noted in :attr:`error`.
        Does nothing after an error of this step, and in a group of one.
        """
        if self.error is None and self.turn.size > 1:
            options = importlib.import_module("torch.distributed").AllreduceOptions()
            try:
                self._peers.allreduce([tensor], options).wait()
            except RuntimeError as error:
                self._note_failure(error)
            tensor /= self.turn.size

    def commits(self) -> bool:
        """Return whether the step counts: nothing of it has failed. Call it once for each step: it
        counts failed steps.
        """
        if self.error is None and (error := self._peers.errored()) is not None:
            self._note_failure(error)
        self._failures = 0 if self.error is None else self._failures + 1
        return self.error is None

    def close(self) -> None:
        self._weights.close()
        self._peers.abort(errored=False)
        for client in (self._step_client, self._key_client):
            client.close()

    def _note_failure(self, error: Exception) -> None:
        """Record the error of a step and close the connections to the peers.

        So peers that do not know of a lost peer yet see an error as well, and all make the step
        again.
        """
        print(f"bftrainer: step {self.turn.step}: {error}; it is made again", flush=True)
        self.error = error
        self._peers.abort()


def _peer_process_group(timeout: timedelta) -> Any:
    """Return torchft's process group for this host's devices: NCCL with a GPU, else Gloo.

    ``timeout`` limits each of its operations.
    """
    torch, torchft = importlib.import_module("torch"), importlib.import_module("torchft")
    cuda = torch.cuda.is_available()

    class Peers(torchft.ProcessGroupNCCL if cuda else torchft.ProcessGroupGloo):  # type: ignore[misc]
        """A process group whose members find each other by keys that only the driver gives.

        A member that dies while they connect is waited for no longer than CONNECT.
        """

        def connect(self, keys: Any, rank: int, size: int) -> None:
            self.abort(errored=False)
            self._timeout = min(timeout, CONNECT)
            self._pg = self._create_pg(keys, rank, size)
            self._timeout = timeout
            if not cuda:  # steps may take longer
                self._pg._get_backend(torch.device("cpu"))._set_default_timeout(timeout)

    return Peers(timeout)


def _prefixed_store(client: SealedClient, prefix: str) -> Any:
    """Return a store for torch whose keys the driver keeps; ``prefix`` separates those of one
    group.

    The members of a process group exchange their addresses through such a store.
    """
    torch = importlib.import_module("torch.distributed")
    lock = threading.Lock()  # one request at a time on the connection

    class DriversKeys(torch.Store):  # type: ignore[misc,name-defined]
        def set(self, key: str, value: bytes | str) -> None:
            text = value if isinstance(value, str) else bytes(value).decode("latin-1")
            self._ask("set", key, text)

        def get(self, key: str) -> bytes:
            return self._ask("get", key).value.encode("latin-1")

        def check(self, keys: list[str]) -> bool:
            return all(self._ask("has", key).act for key in keys)

        def wait(self, keys: list[str], timeout: timedelta = CONNECT) -> None:
            deadline_s = time.monotonic() + timeout.total_seconds()
            while not self.check(keys):
                if time.monotonic() > deadline_s:
                    raise TimeoutError("a peer has not come")
                time.sleep(0.002)

        def _ask(self, act: str, key: str, value: str = "") -> Keys:
            with lock:
                client.send(packed(Keys(act, prefix + key, value)))
                return unpacked(Keys, client.receive(MOST_BYTES))

    return DriversKeys()
