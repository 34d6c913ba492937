"""torchft: replicas of a model that train together, and of which any may join or be lost between two steps, or within one."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from bftrainer.progress.elastic import Kept
from bftrainer.progress.reporter import Reporter
from bftrainer.progress.sampler import Sampler
from bftrainer.scaling import LearningRate
from bftrainer.system.network import interface_address

REPLICA = "TORCHFT_REPLICA_ID"
"""The replica's name, which bftrainer's driver sets."""
CONNECT = timedelta(seconds=10)
"""How long a new group may take to connect (Gloo)."""


class Replicas:
    """This process's copy of a model, averaged with its peers' at each step; see docs/torchft.md.

    ::

        replicas = progress.Replicas(model, optimizer, sampler, rate, checkpoint=save)
        for inputs, targets in replicas.batches(loader, epochs):
            replicas.step(cross_entropy(replicas.model(inputs), targets))

    Before each step the group is agreed on; a replica that joins gets the weights, the optimizer's state, the sampler's
    position, the rate and everything in ``keep`` from a peer. A step in which a peer was lost is not applied: its batches come
    again. ``checkpoint()`` writes :meth:`state_dict` to disk; rank 0 calls it at a stop request, every
    ``checkpoint_every_s``, and at the end. ``sampler``: a ``progress.Sampler``, which is also the loader's ``batch_sampler``.

    Without torchft's lighthouse in the environment (outside bftrainer), the process trains alone.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        sampler: Sampler,
        rate: LearningRate | None = None,
        *,
        checkpoint: Callable[[], object] | None = None,
        checkpoint_every_s: float | None = None,
        keep: Iterable[Kept] = (),
        reporter: Reporter | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.optimizer = optimizer
        self.sampler = sampler
        self.rate = rate
        self.rank, self.size = 0, 1
        self.steps = 0
        """Steps that were applied since training began."""
        self._plain = model
        self._kept: dict[str, Kept] = {"model": model, "optimizer": optimizer, "sampler": sampler}
        self._kept |= {} if rate is None else {"rate": rate}
        self._kept |= {f"keep {number}": one for number, one in enumerate(keep)}
        self._checkpoint = checkpoint
        self._every_s = checkpoint_every_s
        self._report = reporter or Reporter(environment)
        self._saved_at = self._report.clock()
        self._watched = False
        self._group: int | None = None
        self._manager = _manager(self, environment) if environment.get("TORCHFT_LIGHTHOUSE") else None
        self.model: Any = model if self._manager is None else _parallel(self._manager, model)
        """The model to train with: its gradients are averaged over the replicas."""

    @property
    def weight(self) -> float:
        """The factor for the mean loss of this replica's batch (``Batches.weight``); :meth:`step` applies it."""
        return self.sampler.batches.weight(self.rank, self.size)

    def batches(self, loader: Iterable[Any], epochs: int) -> Iterator[Any]:
        """The batches of this replica until ``epochs`` epochs are complete. Each must be followed by :meth:`step`."""
        source: Iterator[Any] = iter(())
        expected: object = None
        while self.sampler.epoch < epochs:
            self._begin()
            if expected != (self.rank, self.size, self.sampler.samples):
                source = self._again(loader)
            batch = next(source, None)
            if batch is None:  # the end of an epoch
                source = iter(loader)
                batch = next(source)
            after = self.sampler.samples + self.sampler.batches.total(self.size)
            expected = self.rank, self.size, after
            yield batch
        self._end()

    def step(self, loss: Any = None) -> bool:
        """Average the gradients and apply them; report. Whether the step was applied: if not, its batches come again.

        Without ``loss``, the caller has called ``backward()`` on the loss times :attr:`weight`.
        """
        if loss is not None:
            (loss * self.weight).backward()
        if self._manager is not None and not self._manager.should_commit():
            return False
        if self.rate is not None:
            self.rate.apply(self.optimizer, self.sampler.batches.total(self.size), self.steps)
        self.optimizer.step()
        self.sampler.advance()
        self.steps += 1
        stop = self._report.step(
            step=self.steps,
            samples=self.sampler.samples,
            loss=None if loss is None else float(loss.detach()),
            world_size=self.size,
        )
        if self.rank == 0:
            self._save_if_due(stop)
        return True

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has to contain: weights, optimizer, position, rate, ``keep``, and the number of steps."""
        found = {key: one.state_dict() for key, one in self._kept.items()}
        return found | {"steps": self.steps, "manager": None if self._manager is None else self._manager.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint; all replicas that start together load the same one."""
        self._load(state)
        if self._manager is not None:
            known = state.get("manager") or {"step": self.steps, "batches_committed": self.steps}
            self._manager.load_state_dict(known)

    def _load(self, state: Mapping[str, Any]) -> None:
        for key, one in self._kept.items():
            one.load_state_dict(state[key])
        self.steps = int(state["steps"])

    def _begin(self) -> None:
        """Agree on the group of this step; a replica that is behind gets a peer's state here."""
        if self._manager is not None:
            self._manager.start_quorum()
            self.rank, self.size = int(self._manager.participating_rank()), int(self._manager.num_participants())
            group = self._manager._quorum_id
            if group != self._group:  # others than before, or the same ones after an error
                self._group = group
                self._report.act_as(self.rank)
                self._report.line(
                    step=self.steps, samples=self.sampler.samples, world_size=self.size, force=True, formed=True
                )
        if not self._watched:
            self._watched = True
            self._report.watch(self._plain, self.optimizer, sampler=self.sampler, rate=self.rate)
        self.optimizer.zero_grad()

    def _again(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Read on from the sampler's position, with the share of the present group."""
        self.sampler.load_state_dict(self.sampler.state_dict())  # forgets what was read ahead
        self.sampler.shard(self.rank, self.size)
        return iter(loader)

    def _save_if_due(self, stop: bool) -> None:
        due = self._every_s is not None and self._report.clock() - self._saved_at >= self._every_s
        if stop or due:
            self._save()
        if stop:
            self._report.leave()

    def _save(self) -> None:
        self._saved_at = self._report.clock()
        if self._checkpoint is not None:
            self._checkpoint()
            self._report.checkpointed()

    def _end(self) -> None:
        if self.rank == 0:
            self._save()
            self._report.done()
        if self._manager is not None:
            self._manager.shutdown(wait=False)


def _manager(replicas: Replicas, environment: Mapping[str, str]) -> Any:
    """torchft's manager of this process: a replica group of one, with a store of its own, on one interface."""
    torchft = importlib.import_module("torchft")
    torch = importlib.import_module("torch")
    transport = importlib.import_module("torchft.checkpointing.pg_transport")
    timeout = timedelta(seconds=int(environment.get("TORCHFT_TIMEOUT_SEC", "60")))
    cuda = torch.cuda.is_available()
    interface = environment.get("GLOO_SOCKET_IFNAME")
    address = interface_address(interface) if interface else "localhost"
    store = torch.distributed.TCPStore(address, 0, is_master=True, wait_for_workers=False)

    class ConnectsSoon(torchft.ProcessGroupGloo):  # type: ignore[misc,name-defined]
        """A member that dies while the group connects is waited for no longer than this; steps may take longer."""

        def _create_pg(self, store: Any, rank: int, world_size: int) -> Any:
            self._timeout = min(timeout, CONNECT)
            made = super()._create_pg(store, rank, world_size)
            made._get_backend(torch.device("cpu"))._set_default_timeout(timeout)
            return made

    group = torchft.ProcessGroupNCCL(timeout=timeout) if cuda else ConnectsSoon(timeout=timeout)

    class LeavesAtOnce(torchft.Manager):  # type: ignore[misc,name-defined]
        """Closes its connections at the first error: peers that do not know of the loss yet then see one, too."""

        def report_error(self, error: Exception) -> None:
            super().report_error(error)
            group.abort()

    manager = LeavesAtOnce(
        pg=group,
        load_state_dict=replicas._load,
        state_dict=replicas.state_dict,
        min_replica_size=1,
        use_async_quorum=False,  # a batch is drawn for a known rank and size
        timeout=timeout,
        rank=0,
        world_size=1,
        store_addr=address,
        store_port=store.port,
        replica_id=environment.get(REPLICA),
        hostname=address,
        # bftrainer's lighthouse is told who is alive; torchft's own finds out by heartbeats.
        heartbeat_interval=timedelta(seconds=60 if environment.get(REPLICA) else 0.1),
        # Over the group's own connections: torchft's other transport serves the weights to everybody by HTTP.
        checkpoint_transport=transport.PGTransport(
            group, timeout, torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
        ),
    )
    manager.bftrainer_store = store  # closed with the manager
    return manager


def _parallel(manager: Any, model: Any) -> Any:
    torchft = importlib.import_module("torchft")
    torch = importlib.import_module("torch")

    class SurvivesLosses(torchft.DistributedDataParallel):  # type: ignore[misc,name-defined]
        """torchft 0.2.0's own hook fails with AssertionError where an average fails as it is waited for."""

        @staticmethod
        def _comm_hook(state, bucket):  # type: ignore[no-untyped-def]  # torch checks annotations, which are text here
            work = state.allreduce(bucket.buffer())
            work.wait()  # notes an error, which makes this step one that is not applied
            future = getattr(work.get_future(), "_fut", None)
            if future is None:
                future = torch.futures.Future()
                future.set_result(bucket.buffer())
            return future

    return SurvivesLosses(manager, model)
