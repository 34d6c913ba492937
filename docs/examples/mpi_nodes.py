"""Starts an MPI program on the nodes of a trainer: ``python mpi_nodes.py python heat.py``, with one
worker of bftrainer per node.

``mpiexec`` of Open MPI starts a daemon, ``orted``, on each node through a remote shell such as ssh.
Here, the trainer's workers are that remote shell: they already run on the nodes, inside the jobs
that hold them. The worker of rank 0 runs ``mpiexec``, with ``mpi_nodes.py --agent`` in place of
ssh; the agent writes the command for a node to a file in the trainer directory; the worker of that
node runs the command. So no process of the program runs outside the jobs that hold its nodes, and a
node that is released is free of them. Neither keys of ssh nor a daemon of the site is needed.

Trainer file: ``launcher = "restart"``, ``slots = 1`` (the default of a node without GPUs). More MPI
ranks per node: ``--ranks-per-node 64``.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

WAIT_S = 300.0
"""How long the worker of a node waits for the command of ``mpiexec``."""
POLL_S = 0.05
SCRIPT = Path(__file__).resolve()
MCA = {
    "plm": "rsh",
    "plm_rsh_no_tree_spawn": "1",  # rank 0's mpiexec asks for each node itself
    "orte_leave_session_attached": "1",  # a daemon of its own session would outlive its worker
    # The job around rank 0 has some of the nodes only: Open MPI would refuse the others.
    "ras": "^slurm,lsf,tm,gridengine,alps",
}
"""Parameters of Open MPI 4.1, passed as OMPI_MCA_NAME."""


def command_file(node: str) -> Path:
    """Return the file with the command for a node in this incarnation."""
    folder = Path(os.environ["BFTRAINER_TRAINER_DIR"])
    return folder / f"mpi.{os.environ['BFTRAINER_INCARNATION']}.{node}"


def run_in_shell(command: str) -> NoReturn:
    """Become a shell that runs the command of ``mpiexec``, which is quoted for one, as for ssh.

    The command starts a daemon, which gets a folder of its own for temporary files: Open MPI
    4.1.4's daemons of one user and host create the same folders there, and one that finds that
    another has just created a folder ends with status 213.
    """
    os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="mpi-")
    script = f"trap 'rm -rf \"$TMPDIR\"' EXIT\n{command}\nexit $?"
    os.execvp("/bin/sh", ["/bin/sh", "-c", script])  # noqa: S606  # mpiexec quotes for one


def act_as_agent(node: str, command: str) -> None:
    """Pass the command on to the worker of a node; run it here if this is the node."""
    if node == os.environ["BFTRAINER_NODE"]:
        run_in_shell(command)
    path = command_file(node)
    part = path.with_name(f"{path.name}.part")
    part.write_text(command)
    part.replace(path)


def wait_for_command() -> str:
    """Return the command for this node, and remove its file.

    Raises ``TimeoutError`` after ``WAIT_S``.
    """
    path = command_file(os.environ["BFTRAINER_NODE"])
    end_s = time.monotonic() + WAIT_S
    # A list of the folder's names is read from the server; NFS answers from its cache that one
    # file does not exist.
    while path.name not in os.listdir(path.parent):  # noqa: PTH208
        if time.monotonic() > end_s:
            raise TimeoutError(f"no command of mpiexec for this node within {WAIT_S:g} s")
        time.sleep(POLL_S)
    command = path.read_text()
    path.unlink()
    return command


def run_mpiexec(program: list[str], ranks_per_node: int) -> int:
    """Run ``mpiexec`` on all nodes of the trainer; return the exit status of this worker."""
    agent = f"{sys.executable} {SCRIPT} --agent"
    if ":" in agent or agent.count(" ") > 2:
        sys.exit(f"mpi_nodes.py: Open MPI allows no space or colon in a path: {agent}")
    nodes = [host.rpartition(":")[0] for host in os.environ["BFTRAINER_HOSTS"].split(",")]
    parameters = {**MCA, "plm_rsh_agent": agent}
    os.environ.update({f"OMPI_MCA_{name}": value for name, value in parameters.items()})
    hosts = ",".join(f"{node}:{ranks_per_node}" for node in nodes)
    ranks = str(ranks_per_node * len(nodes))
    command = ["mpiexec", "--host", hosts, "-n", ranks, *program]
    # As for a daemon; one on this node may still be ending.
    with tempfile.TemporaryDirectory(prefix="mpi-", ignore_cleanup_errors=True) as folder:
        environment = {**os.environ, "TMPDIR": folder}
        status = subprocess.call(command, env=environment)  # noqa: S603  # the user's own program
    # A status of 128 and a signal's number would say that this worker was killed, and so that its
    # node was lost. mpiexec ends with 205 where it has lost the daemon of another node.
    if status < 0:
        return 128 - status
    return 1 if status > 128 + signal.SIGRTMAX else status


def main() -> None:
    """Start ``mpiexec``, wait for its command, or act as its agent."""
    if sys.argv[1:2] == ["--agent"]:
        act_as_agent(sys.argv[2], " ".join(sys.argv[3:]))
        return
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--ranks-per-node", type=int, default=1)
    options.add_argument("program", nargs=argparse.REMAINDER, help="of MPI, with its arguments")
    arguments = options.parse_args()
    if "BFTRAINER_HOSTS" not in os.environ:
        sys.exit("mpi_nodes.py: no trainer's worker; by hand: mpiexec -n 4 PROGRAM")
    if os.environ["LOCAL_WORLD_SIZE"] != "1":
        sys.exit("mpi_nodes.py: set slots = 1 in the trainer file, and --ranks-per-node here")
    if os.environ["RANK"] == "0":
        sys.exit(run_mpiexec(arguments.program, arguments.ranks_per_node))
    run_in_shell(wait_for_command())


if __name__ == "__main__":
    main()
