"""For training scripts: reports progress to the pilot and obeys its stop requests.

Elastic Horovod, one changed line::

    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, samples=0)
    state = progress.track(state, hvd, checkpoint=save, keep=[sampler, rate])

torch.distributed, under the launcher ``torchrun``, on every rank::

    report.watch(model, optimizer, sampler=sampler, rate=rate)
    agreement = progress.Agreement.of_torch(report, torch.distributed)
    ...
    report.step(step=step, samples=samples, loss=loss, world_size=size)
    if agreement.to_stop():
        save()                # rank 0, then a barrier
        report.checkpointed()
        report.leave()

torchft, under the launcher ``torchft``, on every replica::

    replicas = progress.Replicas(model, optimizer, sampler, rate, checkpoint=save)
    for inputs, targets in replicas.batches(loader, epochs):
        replicas.step(cross_entropy(replicas.model(inputs), targets))

Any other program, after each step::

    if report.step(step=step, samples=samples, loss=loss, world_size=size):
        save()
        report.checkpointed()
        report.leave()

``docs/training.md`` has batches, learning rates and the order of the data (``Batches``,
``LearningRate``, ``Sampler``).

Outside bftrainer (without ``BFTRAINER_TRAINER_DIR``) all calls do nothing, and the script runs as
it is. Only the standard library is needed. ``docs/trainer-directory.md`` describes the files.
"""

from bftrainer.progress.agreement import Agreement
from bftrainer.progress.elastic import track
from bftrainer.progress.randomness import seed_step
from bftrainer.progress.replicas import Replicas
from bftrainer.progress.reporter import Reporter, batches
from bftrainer.progress.sampler import Sampler
from bftrainer.progress.sharded import Sharded
from bftrainer.scaling import Batches, LearningRate, LearningRateRule, Scaling
from bftrainer.wires.control import STOPPED_STATUS

__all__ = [
    "STOPPED_STATUS",
    "Agreement",
    "Batches",
    "LearningRate",
    "LearningRateRule",
    "Replicas",
    "Reporter",
    "Sampler",
    "Scaling",
    "Sharded",
    "batches",
    "seed_step",
    "track",
]
