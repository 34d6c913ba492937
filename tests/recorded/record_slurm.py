"""Record Slurm's answers to every command that the adapters parse: ``PYTHONPATH=tests python
tests/recorded/record_slurm.py``.

    record_slurm.py [VERSION ...]     of installed, trixie, sid (default: all), into tests/recorded/slurm-NUMBER

Run as root; the hostile jobs are the user nobody's. Each file begins with its command, its date and
the version; JSON says so itself (``meta``). The mark that ends records is fixed, so that tests know
it. Replaced are the cluster's folder (``/lab``), the host's name (``host``), its kernel's release
(``6.1.0``) and the folder of the programs (``/opt/slurm``).
"""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from support import slurm_json
from support.recorded_slurm import MARK, RECORDED
from support.slurm_accounting import (
    account_beside_pilots,
    limit,
    preemptible_qos,
    sacctmgr,
    with_user,
)
from support.slurm_gpus import A100, MIG, SHARD
from support.slurm_lab import DEFAULTS, Lab, Settings, sibling_of, wait_until
from support.slurm_versions import VERSIONS

from bftrainer.errors import CommandError
from bftrainer_clusters.slurm import (
    associations,
    job_list,
    limit_waits,
    observe,
    peers,
    pilot_job,
    setup,
    text,
)
from bftrainer_clusters.slurm import clusters as slurm_clusters
from bftrainer_clusters.slurm import jobs as slurm_jobs
from bftrainer_clusters.slurm.calls import ENVIRONMENT
from bftrainer_clusters.slurm.records import MarkedQuery

NODES = ("scontrol", "-a", "-o", "show", "node")
STRANGER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
HELD = ("sbatch", "-H", "-o", "/dev/null", "--wrap", "sleep 600")
# Forged records: a plan for all nodes, an administrator's holder, another pilot's claim.
NAMES = ("a\u2028b", "x\ry\fz\x85w", "x\n1|root|main|{soon}|node[01-08]|8|Priority|y\n")
COMMENTS = (
    "a\n99|root|RUNNING|bftrainer-holder|None|bftrainer: idle node held by pilot x of root; y; "
    "hosts node[01-08]",
    "bftrainer: pilot evil of root; hosts "
    "n[1-199999,1-199999]\nJOBID|USER|STATE|NAME|REASON|COMMENT",
)
POWER = (
    "SuspendProgram=/bin/true\nResumeProgram=/bin/true\nSuspendTime=86400\nSuspendTimeout=1\nResumeTimeout=60\n"
    "SuspendExcParts=service"
)


@dataclass
class Recorder:
    """Writes the answers of one cluster."""

    lab: Lab

    @property
    def folder(self) -> Path:
        return RECORDED / f"slurm-{self.lab.version.number}"

    def query(self, name: str, query: MarkedQuery, fails: bool = False) -> None:
        """What squeue prints, with the fixed mark."""
        self.text(name, query.argv, fails, replace(query, mark=MARK).variables)

    def text(
        self,
        name: str,
        argv: Sequence[str],
        fails: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """What a command prints; of one that is to fail, its words on stderr."""
        given = dict(variables or {})
        environment = {**self.lab.environ(), **ENVIRONMENT, **given}
        done = subprocess.run(argv, env=environment, capture_output=True, check=not fails)
        assert bool(done.returncode) is fails, (argv, done)
        when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")
        ended = f", exit status {done.returncode}, stderr" if fails else ""
        words = [f"{key}={value}" for key, value in given.items()]
        head = f"# command: {' '.join(['SLURM_TIME_FORMAT=%s', 'TZ=UTC', *words, *argv])}\n"
        head += f"# when: {when}  slurm: {self.lab.version.number}{ended}\n"
        self._write(f"{name}.txt", head.encode() + (done.stderr if fails else done.stdout))

    def json(self, name: str, argv: Sequence[str]) -> None:
        done = subprocess.run(
            argv, env={**self.lab.environ(), **ENVIRONMENT}, capture_output=True, check=True
        )
        self._write(f"{name}.json", done.stdout)

    def jobs(self, name: str, form: str, is_wanted: Callable[[job_list.Job], bool]) -> None:
        """What a reader gets of the list of all jobs."""
        query = job_list.query(mark=MARK)
        variables = {**ENVIRONMENT, **query.variables}
        printed = self.lab.run("env", *(f"{k}={v}" for k, v in variables.items()), *query.argv)
        words = [f"{key}={value}" for key, value in query.variables.items()]
        head = (
            f"# of command: {' '.join([*words, *query.argv])}\n# slurm: {self.lab.version.number}\n"
        )
        self._write(
            f"{name}.txt",
            (head + job_list.parse_jobs(printed, MARK).as_printed(form, is_wanted)).encode(),
        )

    def look(self, moment: str) -> None:
        """What a poll asks, in text and in JSON, of a cluster in which nothing changes
        meanwhile.
        """
        self.jobs(f"{moment}.pending", text.JOB_FORMAT, job_list.waits)
        self.text(f"{moment}.nodes", observe.NODES_ARGV)
        self.text(f"{moment}.reservations", observe.RESERVATIONS_ARGV)
        if self.lab.version.release >= slurm_json.SINCE:
            self.json(f"{moment}.pending", slurm_json.PENDING)
            self.json(f"{moment}.nodes", slurm_json.NODES)
            self.json(f"{moment}.reservations", slurm_json.RESERVATIONS)
        self.text(f"{moment}.sdiag", ["sdiag"])

    def _write(self, name: str, content: bytes) -> None:
        self.folder.mkdir(exist_ok=True)
        folders = {
            self.lab.root: "/lab",
            **({self.lab.version.folder: "/opt/slurm"} if self.lab.version.folder else {}),
        }
        for here, there in folders.items():
            for slash in (b"/", b"\\/"):  # JSON of some versions escapes slashes
                content = content.replace(
                    str(here).encode().replace(b"/", slash), there.encode().replace(b"/", slash)
                )
        for word, other in ((platform.release(), b"6.1.0"), (socket.gethostname(), b"host")):
            content = re.sub(rb"\b" + re.escape(word.encode()) + rb"\b", other, content)
        (self.folder / name).write_bytes(content)


def stranger(lab: Lab, *argv: str) -> None:
    subprocess.run([*STRANGER, *argv], env=lab.environ(), cwd="/", check=True, capture_output=True)


def pending(lab: Lab, count: int) -> None:
    wait_until(
        lambda: len(lab.run("squeue", "-h", "-t", "PD", "-o", "%A").split()) == count,
        "the jobs to be pending",
    )


def running(lab: Lab, count: int) -> None:
    wait_until(
        lambda: len(lab.run("squeue", "-h", "-t", "R", "-o", "%A").split()) == count,
        f"{count} running jobs",
    )


def reserve(lab: Lab, name: str, start: str, node: str, flags: str = "") -> None:
    lab.run(
        "scontrol",
        "create",
        "reservation",
        f"ReservationName={name}",
        f"StartTime={start}",
        "Duration=60",
        "Users=root",
        f"Nodes={node}",
        *([f"Flags={flags}"] if flags else []),
    )


def held(lab: Lab, node: str, more: str = "") -> str:
    """A holder as squeue shows it: its comment, its payload's step."""
    payload = f"srun --overlap -n1 -J {slurm_jobs.PAYLOAD_STEP} sleep 600 &"
    return lab.submit(
        f"{payload}\n{more}\nwait",
        "-p",
        "scavenge",
        "-N1",
        "-w",
        node,
        "-t",
        "4",
        "-J",
        slurm_jobs.HOLDER_NAME,
        f"--comment={slurm_jobs.comment('test', 'root')}",
    )


# Moments of a cluster of eight nodes


def empty(to: Recorder) -> None:
    to.look("empty")


def planned(to: Recorder) -> None:
    lab = to.lab
    lab.submit("sleep 600", "-N2", "-w", "node[01-02]", "-t", "10")
    lab.submit("sleep 600", "-N7", "-w", "node[01-07]", "-t", "5")
    lab.submit("sleep 600", "-N3", "-w", "node[03-05]", "-t", "60", "-J", "a|b")
    reserve(lab, "maint", "now+30minutes", "node07", "MAINT")
    worker = "sleep 1; srun --overlap -n1 bash -c 'sleep 600' &"
    holders = [held(lab, "node04", worker), held(lab, "node05")]
    wait_until(lambda: "bash" in lab.run("squeue", "-h", "-s", "-o", "%j"), "the worker's step")
    wait_until(lambda: "node[01-07]" in lab.run("squeue", "-h", "-t", "PD", "-o", "%Y"), "a plan")
    to.look("planned")
    to.query("planned.holders", slurm_jobs.list_query("root"))
    to.text("planned.steps", slurm_jobs.steps_argv(holders))
    to.query("planned.known", slurm_jobs.known_query([*holders, "999999999"]))
    to.text("planned.job", pilot_job.job_argv(holders[0]))
    to.text("unknown.job", pilot_job.job_argv("999999999"), fails=True)
    to.query("unknown.known", slurm_jobs.known_query(["999999999"]), fails=True)
    to.text("unknown.exists", slurm_jobs.exists_argv("999999999"), fails=True)
    lab.run("scancel", holders[1])
    wait_until(
        lambda: "CANCELLED" in lab.run("squeue", "-h", "-t", "all", "-j", holders[1], "-o", "%T"),
        "its end",
    )
    to.query("cancelled.holders", slurm_jobs.list_query("root"))


def reasons(to: Recorder) -> None:
    lab = to.lab
    all_of_it = lab.submit("sleep 600", "-N8", "-t", "10")
    lab.submit("sleep 600", "-N3", "-t", "10", "-J", "a|b")
    for options in (["-H"], [f"--dependency=afterok:{all_of_it}"], ["--begin=now+1hour"]):
        lab.submit("sleep 600", "-N1", *options)
    by_root = lab.submit("sleep 600", "-N1", "--begin=now+1hour")
    lab.run("scontrol", "hold", by_root)
    pending(lab, 5)
    wait_until(lambda: "Resources" in lab.run("squeue", "-h", "-t", "PD", "-o", "%r"), "a reason")
    to.look("reasons")


def hostile(to: Recorder) -> None:
    lab = to.lab
    for name in NAMES:
        stranger(lab, *HELD, "-J", name.format(soon=1_795_300_000))
    for words in COMMENTS:
        for name in job_list.NAMES:
            stranger(lab, "sbatch", "-N1", "-t", "5", "-J", name, "--comment", words, *HELD[2:])
    stranger(lab, *HELD, "-J", slurm_jobs.HOLDER_NAME, "--comment", COMMENTS[0])
    stranger(lab, *HELD, "--array=1-5", "-N2")
    stranger(lab, *HELD, "-N1", ":", "-N2")
    lab.run(
        "scontrol",
        "update",
        "NodeName=node02",
        "Comment=two\nlines\u2028and State=DOWN",
        "Extra=Partitions=none",
    )
    running(lab, 4)
    to.look("hostile")
    to.jobs("hostile.peers", peers.FORMAT, lambda job: bool(job["%j"]))
    lab.run("scontrol", "update", "NodeName=node02", "Comment=", "Extra=")


def kinds(to: Recorder) -> None:
    """An array that runs and waits, and a heterogeneous job that waits."""
    lab = to.lab
    lab.submit("sleep 600", "-N2", "--array=1-5", "-t", "10")
    lab.run("sbatch", "-o", "/dev/null", "-N1", "-t", "10", "--wrap", "sleep 600", ":", "-N3")
    running(lab, 4)
    pending(lab, 3)
    to.look("kinds")


def reserved(to: Recorder) -> None:
    """Reservations with all flags that concern windows."""
    for node, name, start, flags in (
        ("node01", "flex", "now+1hour", "FLEX"),
        ("node02", "floats", "now+2hours", "TIME_FLOAT"),
        ("node03", "magnetic", "now+4hours", "MAGNETIC"),
        ("node04", "now", "now", "MAGNETIC"),
        ("node05", "both", "now+1hour", "FLEX,MAGNETIC"),
    ):
        reserve(to.lab, name, start, node, flags)
    wait_until(lambda: "RESERVED" in to.lab.run(*NODES), "the reservation that begins now")
    to.look("reserved")


def states(to: Recorder) -> None:
    """A node in each state that an administrator can set here."""
    lab = to.lab
    lab.submit("sleep 600", "-N1", "-w", "node01", "-t", "10")
    held(lab, "node06")
    running(lab, 2)
    for node in ("node01", "node02"):
        lab.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=State=IDLE")
    lab.run("scontrol", "update", "NodeName=node03", "State=DOWN", "Reason=by hand")
    reserve(lab, "maint", "now", "node04", "MAINT,IGNORE_JOBS")
    reserve(lab, "theirs", "now", "node05")
    lab.run("scontrol", "update", "NodeName=node07", "State=POWER_DOWN")
    wanted = {"ALLOCATED", "IDLE", "DOWN", "DRAIN", "MAINTENANCE", "RESERVED", "POWERED_DOWN"}

    def missing() -> set[str]:
        return wanted - {
            word
            for state in re.findall(r"State=(\S+)", lab.run(*NODES))
            for word in state.split("+")
        }

    wait_until(lambda: not missing(), f"all states; at first these are missing: {missing()}", 20)
    to.look("states")


def expediting(to: Recorder) -> None:
    """A job of eight nodes after its Epilog has failed on node02: seven nodes are idle, and it
    waits for the eighth.
    """
    epilog = to.lab.root / "bin" / "epilog"
    to.lab.put_fake("epilog", "#!/bin/sh\n[ $SLURMD_NODENAME != node02 ]\n")
    to.lab.conf.write_text(to.lab.conf.read_text().replace("Epilog=/bin/true", f"Epilog={epilog}"))
    to.lab.run("scontrol", "reconfigure")
    to.lab.run(
        "sbatch", "-N8", "-t", "10", "-o", "/dev/null", "--requeue=expedite", "--wrap", "exit 1"
    )
    wait_until(lambda: "EXPEDITING" in to.lab.run("squeue", "-h", "-o", "%T"), "the requeue", 40)
    to.look("expediting")


def sites(to: Recorder, name: str) -> None:
    to.text(f"site-{name}.config", setup.config_argv())
    to.text(f"site-{name}.partitions", setup.partitions_argv())


def with_gpus(to: Recorder, name: str) -> None:
    to.lab.submit("sleep 600", "-N1", "-w", "node01", "--gres=gpu:1", "-t", "10")
    running(to.lab, 1)
    to.look(name)


def stepmgr(to: Recorder) -> None:
    """Steps of a holder with a worker; without stepmgr, too, where it does not exist."""
    job = held(to.lab, "node01", "sleep 1; srun --overlap -n1 bash -c 'sleep 600' &")

    def worker_runs() -> bool:
        with suppress(CommandError):  # at first there is no step
            return f"StepId={job}.1 " in to.lab.run(*slurm_jobs.job_steps_argv(job))
        return False

    wait_until(worker_runs, "the worker's step", 20)
    to.text("stepmgr.steps", slurm_jobs.steps_argv([job]))
    to.text("stepmgr.job-steps", slurm_jobs.job_steps_argv(job))


def several(to: Recorder) -> None:
    """A holder of three nodes, each with its task of the payload's step and a worker, which has
    given back the last.
    """
    lab = to.lab
    step = (
        f"srun --overlap -n3 -N3 --wait=0 -J {slurm_jobs.PAYLOAD_STEP} bash -c '[ "
        "$SLURM_NODEID = 2 ] || sleep 600' &"
    )
    workers = "; ".join(f"srun --overlap -n1 -N1 -w node0{i} bash -c 'sleep 600' &" for i in (1, 2))
    job = lab.submit(
        f"{step}\nsleep 1\n{workers.replace('&;', '&')}\nwait",
        "-p",
        "scavenge",
        "-N3",
        "-n3",
        "-w",
        "node01,node02,node03",
        "--exclusive",
        "-t",
        "4",
        "-J",
        slurm_jobs.HOLDER_NAME,
        f"--comment={slurm_jobs.comment('test', 'root')}",
    )
    wait_until(
        lambda: f"{job}.2" in lab.run("squeue", "-h", "-s", "-o", "%i"), "the workers' steps"
    )
    lab.run("scontrol", "update", f"JobId={job}", "ReqNodeList=node01,node02")
    to.query("several.holders", slurm_jobs.list_query("root"))
    to.query("several.nodes-of", slurm_jobs.nodes_query([job]))
    to.text("several.job-steps", slurm_jobs.job_steps_argv(job))


def limits(to: Recorder) -> None:
    """A QOS without limits and with them, and what they make of holders."""
    lab = to.lab
    preemptible_qos(lab)
    to.text("site-qos.config", setup.config_argv())
    to.text("site-qos.partitions", setup.partitions_argv())
    to.text("plain.qos", setup.qos_argv())
    ours = ("-q", "scavenger", "-A", "pilots", "-N1", "-J", slurm_jobs.HOLDER_NAME)
    limit(lab, "MaxJobsPerUser=1")
    for node in lab.node_names:
        lab.submit(
            "sleep 600", *ours, "-w", node, f"--comment={slurm_jobs.comment('test', 'root')}"
        )
    wait_until(lambda: "QOSMax" in lab.run("squeue", "-h", "-o", "%r"), "the limit")
    to.query("limited.holders", slurm_jobs.list_query("root"))
    limit(
        lab,
        "MaxSubmitJobsPerUser=2 GraceTime=45 PreemptExemptTime=60 MaxWall=30 GrpTRES=node=2 "
        "MaxTRESPerUser=node=1",
    )
    to.text("limited.qos", setup.qos_argv())
    to.text("limited.sbatch", ["sbatch", *ours, "-t", "10", "--wrap", "sleep 600"], fails=True)


def shared(to: Recorder) -> None:
    """Accounts below one whose limit holders use up, and a main job that waits for it."""
    lab = to.lab
    preemptible_qos(lab)
    account_beside_pilots(lab, "root")
    sacctmgr(lab, "modify account science set GrpTRES=node=1")
    lab.submit("sleep 600", "-q", "scavenger", "-A", "pilots", "-N1", "-J", slurm_jobs.HOLDER_NAME)
    running(lab, 1)
    lab.submit("sleep 600", "-q", "normal", "-A", "physics", "-N1")
    wait_until(lambda: "AssocGrpNodeLimit" in lab.run("squeue", "-h", "-o", "%r"), "the limit")
    to.jobs("shared.waits", limit_waits.FORMAT, job_list.waits)
    to.text("shared.user", associations.argv("lab", user="root"))
    to.text("shared.account", associations.argv("lab", account="science"))
    to.text("shared.accounts", associations.argv("lab"))
    to.text("shared.default-account", associations.default_account_argv("root"))


def clusters(to: Recorder) -> None:
    """A cluster under the same slurmdbd, asked by -M; then both are in a federation."""
    with sibling_of(to.lab) as sibling:
        to.text("clusters.alone", slurm_clusters.federation_argv())
        with_user(sibling)
        job = ("sbatch", "--parsable", "-o", "/dev/null", "-N1", "--wrap", "sleep 600")
        to.text("clusters.sbatch", slurm_clusters.of_cluster(job, "b"))
        wait_until(
            lambda: "RUNNING" in to.lab.run("squeue", "-M", "b", "-h", "-o", "%T"), "the job"
        )
        query = job_list.query(mark=MARK)
        to.query(
            "clusters.jobs", replace(query, argv=(*slurm_clusters.of_cluster(query.argv, "b"),))
        )
        to.text("clusters.no-heading", slurm_clusters.of_cluster(["squeue", "-h", "-o", "%T"], "b"))
        to.text(
            "clusters.unknown", slurm_clusters.of_cluster(["squeue", "-h"], "nosuch"), fails=True
        )
        sibling.cancel_all()
        to.lab.run("sacctmgr", "-i", "add", "federation", "fed", "clusters=a,b")
        if to.lab.version.release < (25, 11):  # 26.05.5's slurmctld does not answer any more
            wait_until(
                lambda: "Federation:" in to.lab.run(*slurm_clusters.federation_argv()),
                "the federation",
            )
            to.text("clusters.federation", slurm_clusters.federation_argv())


def waiting(to: Recorder) -> None:
    """Nothing is preempted: two pilots hold three of four nodes, and main jobs of all kinds wait."""
    lab = to.lab
    for node, features in (("node01", "big,ib"), ("node02", "big"), ("node04", "old")):
        words = (f"AvailableFeatures={features}", f"ActiveFeatures={features}")
        lab.run("scontrol", "update", f"NodeName={node}", *words)
    for node, pilot in (("node01", "a"), ("node02", "a"), ("node03", "b")):
        comment = f"--comment={slurm_jobs.comment(pilot, 'root')}"
        alone = ("-N1", "-w", node, "--exclusive", "-J", slurm_jobs.HOLDER_NAME)
        lab.submit("sleep 600", "-p", "scavenge", *alone, comment)
    lab.submit("sleep 600", "-p", "main", "-N1", "-w", "node04", "-t", "30", "-J", "runs")
    running(lab, 4)
    for options in (
        ("-N2",),
        ("-n3",),
        ("-N1-4",),
        ("--array=1-7:2%2", "-N1"),
        ("-N1", "-x", "node01,node02"),
        ("-p", "main,scavenge", "-N2", "-w", "node[02-03]"),
        ("-N1", "--begin=now+1hour"),
        ("-N1", "-H"),
        ("-N1", "-d", "singleton", "-J", "runs"),
        ("-N1", "-J", slurm_jobs.HOLDER_NAME, "--comment=bftrainer: not a holder"),
        ("-N1", "-C", "big&ib"),
        ("-N1", "-C", "ib|old", "-J", "a name|with bars"),
        ("-N2", "-C", "[big*1&old*1]"),
        ("-N1", "--mem=1500M"),
        ("-N1", "--mem-per-cpu=700M", "--mincpus=2"),
        ("-N1", "--gres=gpu:1"),
        ("-N1", "--gpus-per-node=a100:2"),
        ("-N2-4",),
        ("-N2-3", "-c2"),
        ("-N2-4", "--ntasks-per-node=2"),
        ("-N2", "--mincpus=2"),
    ):
        lab.submit("sleep 600", "-t", "5", *options)
    wait_until(
        lambda: "None" not in lab.run("squeue", "-h", "-t", "PD", "-o", "%r").split(), "reasons"
    )
    to.query("waiting.jobs", job_list.query(with_waits=True))
    to.text("waiting.nodes", observe.NODES_ARGV)
    to.text("waiting.sdiag", ("sdiag",))


Moment = Callable[[Recorder], None]
LABS: dict[str, tuple[Settings, tuple[Moment, ...]]] = {
    "eight nodes": (
        Settings(more=POWER),
        (empty, planned, reasons, hostile, kinds, reserved, states),
    ),
    "expediting": (
        Settings(controller=f"{Settings().controller},enable_expedited_requeue"),
        (expediting,),
    ),
    "recommended": (Settings(), (lambda to: sites(to, "recommended"),)),
    "defaults": (DEFAULTS, (lambda to: sites(to, "defaults"),)),
    "gpus": (Settings(nodes=2, gpus=A100), (lambda to: with_gpus(to, "gpus"),)),
    "mig": (Settings(nodes=2, gpus=MIG), (lambda to: with_gpus(to, "mig"),)),
    "shard": (Settings(nodes=2, gpus=SHARD), (lambda to: with_gpus(to, "shard"),)),
    "stepmgr": (
        Settings(nodes=1, controller="enable_stepmgr", more="PrologFlags=contain"),
        (stepmgr,),
    ),
    "several": (Settings(nodes=3), (several,)),
    "qos": (
        Settings(nodes=2, preempt="preempt/qos", accounting="associations,limits,qos"),
        (limits,),
    ),
    "waiting": (Settings(nodes=4, preempt="preempt/none", gpus=A100), (waiting,)),
    "clusters": (Settings(nodes=1, accounting="associations", cluster="a"), (clusters,)),
    "shared": (
        Settings(nodes=2, preempt="preempt/qos", accounting="associations,limits,qos"),
        (shared,),
    ),
}


def main(names: list[str]) -> None:
    os.environ.pop("SLURM_CONF", None)
    wanted = [name.partition(":") for name in names or VERSIONS]
    for name, _, only in wanted:
        for which, (settings, moments) in LABS.items():
            if only and only != which:
                continue
            if which == "expediting" and VERSIONS[name].release < (25, 11):
                continue
            if which == "stepmgr" and VERSIONS[name].release < (24, 5):
                settings = Settings(nodes=1)
            with tempfile.TemporaryDirectory(prefix="lab-") as folder:
                lab = Lab(Path(folder), settings, VERSIONS[name])
                lab.root.chmod(0o711)  # slurm.conf and munge's socket are below, for the stranger
                os.chdir(folder)
                try:
                    lab.start()
                    for moment in moments:
                        if moment is not moments[0]:
                            lab.tidy_up()
                        moment(Recorder(lab))
                finally:
                    os.chdir("/")
                    lab.stop()
            print(f"{name} {lab.version.number}: {which}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
