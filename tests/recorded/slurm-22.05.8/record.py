"""Record the answers to the adapters' own commands: ``PYTHONPATH=tests python tests/recorded/slurm-22.05.8/record.py``.

Run as root, with Debian's Slurm 22.05.8; the hostile jobs are another user's. The mark is fixed, so that tests know it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from recorded_slurm import MARK
from slurm_lab import Lab, wait_until

from bftrainer_adapters.slurm import jobs as slurm_jobs
from bftrainer_adapters.slurm import observe as slurm_observe
from bftrainer_adapters.slurm import peers as slurm_peers
from bftrainer_adapters.slurm.calls import ENVIRONMENT
from bftrainer_adapters.slurm.observe import AnswerFormat

HERE = Path(__file__).parent
STRANGER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
HELD = ("sbatch", "-H", "-o", "/dev/null", "--wrap", "sleep 600")
WHEN = "%Y-%m-%dT%H:%M:%S+00:00"
# Forged records: a plan for all nodes, an administrator's holder, another pilot's claim.
NAMES = ("a\u2028b", "x\ry\fz\x85w", "x\n1|root|main|{soon}|node[01-08]|8|Priority|y\n")
COMMENTS = (
    "a\n99|root|RUNNING|bftrainer-holder|None|bftrainer: idle node held by pilot x of root; y; hosts node[01-08]",
    "bftrainer: pilot evil of root; hosts n[1-199999,1-199999]\nJOBID|USER|STATE|NAME|REASON|COMMENT",
)


def record(lab: Lab, name: str, argv: list[str]) -> None:
    out = subprocess.run(argv, env={**lab.environ(), **ENVIRONMENT}, capture_output=True, check=True).stdout
    now = datetime.now(timezone.utc).strftime(WHEN)
    head = f"# command: SLURM_TIME_FORMAT=%s TZ=UTC {' '.join(argv)}\n# when: {now}  slurm: slurm-wlm 22.05.8 (Debian 12), "
    (HERE / f"{name}.txt").write_bytes(f"{head}tests/slurm_lab.py\n".encode() + out)


def look(lab: Lab, moment: str) -> None:
    text = AnswerFormat.TEXT
    record(lab, f"{moment}.pending", slurm_observe.pending_argv(text, MARK))
    record(lab, f"{moment}.nodes", slurm_observe.nodes_argv(text))
    record(lab, f"{moment}.reservations", slurm_observe.reservations_argv(text))
    record(lab, f"{moment}.sdiag", ["sdiag"])


def stranger(lab: Lab, *argv: str) -> None:
    subprocess.run([*STRANGER, *argv], env=lab.environ(), cwd="/", check=True, capture_output=True)


def pending(lab: Lab, count: int) -> None:
    wait_until(lambda: len(lab.run("squeue", "-h", "-t", "PD", "-o", "%A").split()) == count, "the jobs to be pending")


def planned(lab: Lab) -> None:
    lab.submit("sleep 600", "-N2", "-w", "node[01-02]", "-t", "10")
    lab.submit("sleep 600", "-N7", "-w", "node[01-07]", "-t", "5")
    lab.submit("sleep 600", "-N3", "-w", "node[03-05]", "-t", "60", "-J", "a|b")
    lab.run(
        "scontrol", "create", "reservation", "ReservationName=maint", "StartTime=now+30minutes", "Duration=60",
        "Users=root", "Nodes=node07", "Flags=MAINT",
    )  # fmt: skip
    comment = slurm_jobs.comment("test", "root")
    payload = f"srun --overlap -n1 -J {slurm_jobs.PAYLOAD_STEP} sleep 600 &"
    worker = "sleep 1; srun --overlap -n1 bash -c 'sleep 600' &"
    holders = [
        lab.submit(
            f"{payload}\n{more}\nwait", "-p", "scavenge", "-N1", "-w", node, "-t", "4", "-J", slurm_jobs.HOLDER_NAME,
            f"--comment={comment}",
        )
        for node, more in (("node04", worker), ("node05", ""))
    ]  # fmt: skip
    wait_until(lambda: "bash" in lab.run("squeue", "-h", "-s", "-o", "%j"), "the worker's step")
    wait_until(lambda: "node[01-07]" in lab.run("squeue", "-h", "-t", "PD", "-o", "%Y"), "a plan")
    look(lab, "planned")
    record(lab, "planned.holders", slurm_jobs.list_argv("root", MARK))
    record(lab, "planned.steps", slurm_jobs.steps_argv(holders, MARK))
    record(lab, "planned.known", slurm_jobs.known_argv([*holders, "999999999"], MARK))
    lab.run("scancel", holders[1])
    wait_until(lambda: "CANCELLED" in lab.run("squeue", "-h", "-t", "all", "-j", holders[1], "-o", "%T"), "its end")
    record(lab, "cancelled.holders", slurm_jobs.list_argv("root", MARK))


def reasons(lab: Lab) -> None:
    all_of_it = lab.submit("sleep 600", "-N8", "-t", "10")
    lab.submit("sleep 600", "-N3", "-t", "10", "-J", "a|b")
    for options in (["-H"], [f"--dependency=afterok:{all_of_it}"], ["--begin=now+1hour"]):
        lab.submit("sleep 600", "-N1", *options)
    by_root = lab.submit("sleep 600", "-N1", "--begin=now+1hour")
    lab.run("scontrol", "hold", by_root)
    pending(lab, 5)
    wait_until(lambda: "Resources" in lab.run("squeue", "-h", "-t", "PD", "-o", "%r"), "a reason")
    record(lab, "reasons.pending", slurm_observe.pending_argv(AnswerFormat.TEXT, MARK))


def hostile(lab: Lab) -> None:
    for name in NAMES:
        stranger(lab, *HELD, "-J", name.format(soon=1_795_300_000))
    for words in COMMENTS:
        for name in (slurm_jobs.HOLDER_NAME, slurm_peers.PILOT_NAME):
            stranger(lab, "sbatch", "-N1", "-t", "5", "-J", name, "--comment", words, *HELD[2:])
    stranger(lab, *HELD, "-J", slurm_jobs.HOLDER_NAME, "--comment", COMMENTS[0])
    stranger(lab, *HELD, "--array=1-5", "-N2")
    stranger(lab, *HELD, "-N1", ":", "-N2")
    lab.run("scontrol", "update", "NodeName=node02", "Comment=two\nlines\u2028and State=DOWN", "Extra=Partitions=none")
    wait_until(lambda: len(lab.run("squeue", "-h", "-t", "R", "-o", "%A").split()) == 4, "four jobs to run")
    look(lab, "hostile")
    record(lab, "hostile.peers", slurm_peers.list_argv(MARK))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        lab = Lab(Path(folder))
        lab.root.chmod(0o711)  # slurm.conf and munge's socket are below, for the stranger
        try:
            lab.start()
            os.environ.pop("SLURM_CONF", None)
            look(lab, "empty")
            for moment in (planned, reasons, hostile):
                moment(lab)
                lab.tidy_up()
        finally:
            lab.stop()


main()
