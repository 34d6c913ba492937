"""Record what a live OAR prints (tests/support/oar_lab.py) into tests/recorded/oar-VERSION: the readers
of bftrainer_clusters.oar are tried on it. As root:

    .venv/bin/python tests/recorded/record_oar.py
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.oar_lab import Lab, missing_oar
from support.oar_under_test import LiveOar
from support.slurm_lab import wait_until

from bftrainer.system.command import outcome
from bftrainer_clusters.oar.site import own_argv, plan_argv

HEAD = "file\tdate\tstatus\tcommand\n"


class Recorder:
    """Each answer in a file of its own, what was run in COMMANDS.tsv."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        version = re.findall(r"[\d.]+", lab.run("oarstat", "-V"))[0]
        self.folder = Path(__file__).parent / f"oar-{version}"
        self.folder.mkdir(exist_ok=True)
        self.rows: list[str] = []

    def record(self, name: str, *argv: str) -> str:
        output = outcome(argv, timeout_s=60, env=self.lab.env)
        for suffix, text in (("txt", output.out), ("err", output.err)):
            if text or suffix == "txt":
                shown = text.replace(str(self.lab.root), "/opt/lab")
                (self.folder / f"{name}.{suffix}").write_text(shown)
        date = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.rows.append(f"{name}.txt\t{date}\t{output.status}\t{shlex.join(argv)}\n")
        (self.folder / "COMMANDS.tsv").write_text(HEAD + "".join(self.rows))
        return output.out

    def all(self, moment: str) -> None:
        self.record(f"{moment}.oarstat-J", "oarstat", "-J")
        self.record(f"{moment}.oarstat-gantt-J", *plan_argv(time.time()))
        self.record(f"{moment}.oarnodes-J", "oarnodes", "-J")
        self.record(f"{moment}.oarstat-own", *own_argv("root", time.time()))


def record(lab: Lab) -> None:
    recorder, live = Recorder(lab), LiveOar(lab, lab.root)
    recorder.all("empty")
    submit = ("oarsub", "-n", "label", "-t", "besteffort", "--checkpoint", "20", "-d", "/")
    quiet = ("-O", "/dev/null", "-E", "/dev/null")
    for node in ("node01", "node02"):
        where = ("-p", f"network_address='{node}'", "-l", "/network_address=1,walltime=1:0:0")
        recorder.record(f"submitted.{node}", *submit, *quiet, *where, "exec sleep 600")
    wait_until(lambda: lab.run("oarstat").count(" R root") == 2, "holders", 60)
    live.main_job(1, 30)
    lab.oarsub("--hold", "-l", "/network_address=1,walltime=0:30:0", "exec sleep 60")
    live.reserve("node04", 50)
    wait_until(lambda: lab.run("oarstat").count(" R max") == 1, "a main job", 60)
    live.main_job(3, 30)
    lab.set_property("node04", "drain", "YES")
    time.sleep(5)  # until the plan is made
    recorder.all("moment")
    recorder.record("error.oardel-unknown", "oardel", "9999")
    recorder.record("error.oardel-signal", "oardel", "-s", "SIGTERM", "9999")
    recorder.record("error.oarsub-no-node", *submit, "-p", "network_address='x'", "true")
    recorder.record("canceled.oardel", "oardel", "1")
    lab.set_property("node04", "drain", "NO")
    live.main_job(3, 30)
    wait_until(lambda: "T=besteffort" not in lab.run("oarstat"), "the end of holders", 90)
    recorder.all("preempted")
    lab.run("oarnodesetting", "-h", "node03", "-s", "Absent")
    time.sleep(5)
    recorder.all("absent")


if __name__ == "__main__":
    if reason := missing_oar():
        sys.exit(reason)
    with tempfile.TemporaryDirectory(prefix="bftrainer-oar.", ignore_cleanup_errors=True) as path:
        lab = Lab(Path(path), nodes=4)
        try:
            lab.start()
            record(lab)
        finally:
            lab.stop()
