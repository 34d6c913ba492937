"""The heat equation on a square plate, solved with MPI: a program that a pilot resizes by
checkpoint.

The plate is a grid of N x N cells, divided by rows among the ranks; the left edge is hot, the
others are cold. In each step (Jacobi), a cell becomes the mean of its four neighbors, and adjacent
ranks exchange one row. Each cell is computed by the same operations in the same order whatever the
number of ranks, and the largest change is a maximum, not a sum: the result is bit-identical at any
number of ranks, and after any number of restarts.

The contract with bftrainer is that of any program under ``launcher = "restart"``:

* report each step on every rank (rank 0 writes the progress);
* if any rank has seen a stop request, all of them know after the same step: checkpoint, leave;
* at the start: resume from the checkpoint, at any number of ranks;
* end with status 0 when the computation is complete.

Example trainer file: ``mpi_heat.toml`` beside this one. By hand: ``mpiexec -n 4 python -m mpi4py
mpi_heat.py --steps 1000``.
"""

import argparse
import itertools
import os
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy is imported: several ranks share a node

import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402

from bftrainer import progress  # noqa: E402

HOT = 100.0
"""The temperature of the left edge; that of the others is 0."""


class Plate:
    """The rows of one rank, with one further row above and below, and one cell left and right."""

    def __init__(self, group: MPI.Comm, cells: int) -> None:
        self.group, self.cells = group, cells
        size = group.Get_size()
        bounds = [cells * rank // size for rank in range(size + 1)]
        self.counts = [below - above for above, below in itertools.pairwise(bounds)]
        self.begin, self.end = bounds[group.Get_rank()], bounds[group.Get_rank() + 1]
        self.above = group.Get_rank() - 1 if group.Get_rank() > 0 else MPI.PROC_NULL
        self.below = group.Get_rank() + 1 if group.Get_rank() + 1 < size else MPI.PROC_NULL
        self.values = np.zeros((self.end - self.begin + 2, cells + 2))
        self.values[1:-1, 0] = HOT

    def load(self, saved: np.ndarray) -> None:
        """Take this rank's rows of the whole plate (``cells`` x ``cells``)."""
        self.values[1:-1, 1:-1] = saved[self.begin : self.end]

    def gather(self) -> np.ndarray | None:
        """Return the whole plate (``cells`` x ``cells``) on rank 0; None on the others."""
        mine = np.ascontiguousarray(self.values[1:-1, 1:-1])
        whole = np.empty((self.cells, self.cells)) if self.group.Get_rank() == 0 else None
        sizes = [rows * self.cells for rows in self.counts]
        self.group.Gatherv(mine, None if whole is None else [whole, sizes], root=0)
        return whole

    def step(self) -> float:
        """Compute one step; return the largest change of a cell of this rank, in degrees."""
        old = self.values
        self.group.Sendrecv(old[1], self.above, recvbuf=old[-1], source=self.below)
        self.group.Sendrecv(old[-2], self.below, recvbuf=old[0], source=self.above)
        mean = 0.25 * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])
        change = float(np.abs(mean - old[1:-1, 1:-1]).max())
        old[1:-1, 1:-1] = mean
        return change


def write(path: Path, **arrays: object) -> None:
    """Write the arrays under a temporary name, then rename the file."""
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)
    part.replace(path)


def main() -> None:
    """Solve the heat equation."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--cells", type=int, default=256, help="of the plate, in each direction")
    options.add_argument("--pace-s", type=float, default=0.0, help="minimum duration of a step")
    options.add_argument("--checkpoint", type=Path, default=Path("heat.npz"))
    options.add_argument("--checkpoint-every", type=int, default=200, help="steps")
    options.add_argument("--result", type=Path, default=Path("heat-result.npz"))
    given = options.parse_args()

    group = MPI.COMM_WORLD
    rank, size = group.Get_rank(), group.Get_size()
    if size > given.cells:
        options.error(f"{size} ranks for {given.cells} rows: use fewer nodes, or more --cells")
    # The rank of MPI: the variable RANK is that of the worker that started this node's ranks.
    report = progress.Reporter(rank=rank)
    plate, step, change = Plate(group, given.cells), 0, HOT
    if given.checkpoint.exists():
        with np.load(given.checkpoint) as saved:
            plate.load(saved["plate"])
            step, change = int(saved["step"]), float(saved["change"])
    if rank == 0:
        print(f"starts at step {step} with {size} ranks", flush=True)

    def save(path: Path) -> None:
        whole = plate.gather()
        if rank == 0:
            write(path, plate=whole, step=step, change=change)

    cells = given.cells**2
    while step < given.steps:
        began_s = time.monotonic()
        # The second value tells every rank, after the same step, that some rank has seen a request.
        mine = np.array([plate.step(), float(report.stop_requested())])
        group.Allreduce(MPI.IN_PLACE, mine, op=MPI.MAX)
        change, is_stop_requested = float(mine[0]), mine[1] > 0
        step += 1
        report.step(
            step=step,
            samples=step * cells,  # updates of cells
            samples_total=given.steps * cells,
            loss=change,
            world_size=size,
        )
        if step == given.steps:
            break
        if is_stop_requested or step % given.checkpoint_every == 0:
            save(given.checkpoint)
            report.checkpointed()
        if is_stop_requested:
            MPI.Finalize()  # waits for all ranks: mpiexec ends the others once one has left
            report.leave()
        time.sleep(max(0.0, given.pace_s - (time.monotonic() - began_s)))
    save(given.result)
    report.done()
    if rank == 0:
        print(f"done: {step} steps, the last one changed a cell by {change:.3g} degrees at most")


if __name__ == "__main__":
    main()
