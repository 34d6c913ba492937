"""Job names and comments of another, unprivileged user: a pilot on a real Slurm keeps its nodes and
trains on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from support import slurm_json
from support.live_machine import Machine, eventually
from support.slurm_lab import Lab
from support.slurm_versions import SlurmVersion

from bftrainer.errors import CommandError
from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.persistence.store import open_store
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.hold import _Slurm
from bftrainer_clusters.slurm.observe import SlurmScheduler
from bftrainer_clusters.slurm.peers import SlurmPeerPilots

STRANGER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
SEPARATORS = (
    "a\u2028b",
    "a\u2029b",
    "a\rb",
    "a\fb",
    "a\vb",
    "a\x85b",
    "a\x1cb",
    "a\nb",
    "\n",
    "a|b|c\n|||||||\n",
)
POLLS_S = 15.0
"""As many polls of the pilot, each of which reads what the stranger wrote."""

pytestmark = pytest.mark.root  # to submit as somebody else


def held_job(lab: Lab, *options: str) -> None:
    """What costs the stranger nothing: a job that never starts."""
    lab.root.chmod(0o711)  # slurm.conf and munge's socket are below
    argv = [*STRANGER, "sbatch", "-H", "-o", "/dev/null", *options, "--wrap", "true"]
    subprocess.run(argv, env=lab.environ(), cwd="/", check=True, capture_output=True)


def notes(on: Machine) -> list[tuple[str, str]]:
    with closing(open_store(on.state)) as store:
        return [(note.kind, note.text) for note in Registry(store).notes(1000)]


def running(on: Machine, hosts: str = "") -> dict[str, str]:
    """A pilot with a trainer on four nodes."""
    path = on.state / "bftrainer.toml"
    path.write_text(path.read_text().replace("[nodes]\n", f"[nodes]\n{hosts}"))
    on.submit("a", 20_000, 0.05, 4)
    on.pilot()
    eventually(on.state_is_there)
    eventually(lambda: len(on.of_trainer("a")) == 4, 60)
    eventually(lambda: on.steps("a"), 60)
    return on.of_trainer("a")


def keeps(on: Machine, before: dict[str, str]) -> None:
    """For as long as a pilot that is misled needs to give back its nodes."""
    end = time.monotonic() + POLLS_S
    while time.monotonic() < end:
        steps = len(on.steps("a"))
        eventually(lambda steps=steps: len(on.steps("a")) > steps)
        time.sleep(0.5)
    assert on.of_trainer("a") == before
    assert [text for kind, text in notes(on) if kind == "poll failed"] == []


FORGED = tuple(
    f"x\n1|root|main|{{soon}}|node[01-08]|8|Priority{end}"
    for end in ("|y", "", "\n2|root|main|{soon}|node[01-08]|8|Priority|y\n")
)
"""A plan for all nodes, in the fields that a poll reads."""


@pytest.mark.slow
def test_names_and_comments_neither_stop_a_pilot_nor_forge_a_plan_a_peer_or_a_claim(
    beside: Machine, lab: Lab
) -> None:
    before = running(beside, 'hosts = ["node[01-08]"]\nsite_max_nodes = 5\n')
    for name in (*SEPARATORS, *FORGED):
        held_job(lab, "-J", name.replace("{soon}", str(int(time.time()) + 5)))
    forged = "999|root|{}|bftrainer: pilot other of root; hosts node[01-08]"
    for line in (forged.format("bftrainer-pilot"), forged.format("RUNNING|bftrainer-pilot|None|1")):
        for name in ("bftrainer-pilot", "bftrainer-holder"):
            held_job(lab, "-J", name, f"--comment=a\n{line}")
    for _ in range(6):  # as many as the shared cap
        held_job(
            lab, "-J", "bftrainer-holder", "--comment=bftrainer: pilot evil of root; hosts node*"
        )
    for words in SEPARATORS:
        held_job(lab, "-J", "bftrainer-holder", f"--comment={words}")
    keeps(beside, before)
    assert [text for kind, text in notes(beside) if kind == "hosts"] == []


def test_a_running_job_is_shown_under_the_name_of_its_user_whatever_its_comment_says(
    lab: Lab,
) -> None:
    lab.root.chmod(0o711)
    line = (
        "999|root|RUNNING|bftrainer-pilot|None|1|bftrainer: pilot other of root; hosts node[01-08]"
    )
    argv = [
        *STRANGER,
        "sbatch",
        "-N1",
        "-t",
        "5",
        "-o",
        "/dev/null",
        "-J",
        "bftrainer-holder",
        f"--comment=a\n{line}",
    ]
    subprocess.run(
        [*argv, "--wrap", "sleep 600"], env=lab.environ(), cwd="/", check=True, capture_output=True
    )
    peers = SlurmPeerPilots("mine", "root", calls=SlurmCalls(lab.env))
    eventually(lambda: peers.look())
    (seen,) = peers.look()
    assert (seen.user, seen.pilot, seen.hosts, len(seen.holders)) == ("nobody", "unknown", (), 1)


def test_what_administrators_write_of_a_node_changes_nothing_of_it(lab: Lab) -> None:
    words = ("two\nlines\u2028and State=DOWN", "a\rb\x85c", "Partitions=none State=DRAIN")
    for node, text in zip(("node01", "node02", "node03"), words, strict=True):
        lab.run("scontrol", "update", f"NodeName={node}", f"Comment={text}", f"Extra={text}")
    nodes = {node.name: node for node in SlurmScheduler(calls=SlurmCalls(lab.env)).observe().nodes}
    for node in ("node01", "node02", "node03"):
        lab.run("scontrol", "update", f"NodeName={node}", "Comment=", "Extra=")
    assert sorted(nodes) == lab.node_names
    assert {(node.state, node.partitions) for node in nodes.values()} == {
        ("IDLE", ("main", "scavenge"))
    }


@pytest.mark.slow
def test_a_record_goes_on(lab: Lab, tmp_path: Path) -> None:
    for name in SEPARATORS:
        held_job(lab, "-J", name)
    out = tmp_path / "idle.csv"
    argv = [
        sys.executable,
        "-m",
        "bftrainer",
        "record",
        "--out",
        str(out),
        "--every",
        "1s",
        "--for",
        "5s",
        "--json",
    ]
    ended = subprocess.run(argv, env=lab.environ(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    totals = json.loads(ended.stdout)
    assert (totals["failed"], totals["idle"], totals["machine_nodes"]) == (0, 8, 8)


@pytest.mark.every_slurm
def test_text_and_json_list_the_same_jobs_whatever_they_are_called(
    lab: Lab, slurm_version: SlurmVersion
) -> None:
    names = (*SEPARATORS, '"}], "jobs": []', "\\", "\x1b[2J\u202e")
    for name in names:
        held_job(lab, "-J", name, f"--comment={name}")
    by_text = SlurmScheduler(calls=SlurmCalls(lab.env)).observe().pending
    assert {(job.user, job.nodes, job.is_eligible) for job in by_text} == {
        ("nobody", frozenset(), False)
    }
    assert len({job.id for job in by_text}) == len(names)
    if slurm_version.release >= slurm_json.SINCE:
        assert {job.id for job in slurm_json.pending_by_json(lab.env)} == {
            job.id for job in by_text
        }


@pytest.mark.every_slurm
def test_ids_that_slurm_does_not_know_are_told_apart_in_one_command(
    lab: Lab, tmp_path: Path
) -> None:
    job = lab.submit("sleep 600", "-H", "-J", "renamed")
    holder = _Slurm(
        SlurmSettings(partition="scavenge"),
        HolderFiles(tmp_path),
        "test",
        60.0,
        SlurmCalls(lab.env),
    )
    unknown = [str(int(job) + 100 + n) for n in range(3)]
    assert holder.unknown([job, *unknown]) == frozenset(unknown)
    assert holder.unknown(unknown) == frozenset(unknown)
    assert holder.unknown(unknown[:1]) == frozenset(unknown[:1])
    assert holder.unknown([job]) == frozenset()
    lab.put_fake(
        "squeue",
        "#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1\n",
    )
    for asked in ([job], unknown):
        with pytest.raises(CommandError):
            holder.unknown(asked)


RACER = """\
#!/bin/sh
# Runs as another user beside a squeue of the pilot, before that asks slurmctld: RACER PID JOB SEEN
arguments=$(tr '\\0' ' ' < /proc/$1/cmdline)
variables=$(tr '\\0' ' ' < /proc/$1/environ 2>/dev/null) || variables=denied
echo "$arguments: environment $variables" >> "$3"
mark=$(printf '%s %s' "$arguments" "$variables" | grep -oE '[0-9a-f]{16}' | tail -1)
[ -z "$mark" ] || scontrol update JobId="$2" Comment="x|$mark
{forged}"
"""
FORGED_JOB = (
    "99|root|a|q|PENDING|main|N/A|node[01-08]|8|node01|N/A|Priority|bftrainer-pilot|bftrainer: "
    "pilot x of root"
)


@pytest.mark.every_slurm
def test_another_user_beside_squeue_reads_no_mark_and_forges_no_job(
    lab: Lab, tmp_path: Path
) -> None:
    """The race is won here: squeue begins when the other user has read what the kernel shows of
    it.
    """
    held_job(lab, "-J", "theirs")
    job = lab.run("squeue", "-h", "-n", "theirs", "-o", "%A").strip()
    seen, racer = lab.root / "seen", lab.root / "racer"
    racer.write_text(RACER.replace("{forged}", FORGED_JOB))
    racer.chmod(0o755)
    seen.touch()
    seen.chmod(0o666)
    beside = f"{' '.join(STRANGER)} {racer} $$ {job} {seen}"
    lab.put_fake("squeue", f'#!/bin/sh\n{beside}\nexec {lab.real("squeue")} "$@"\n')
    calls = SlurmCalls(lab.env)
    holder = _Slurm(SlurmSettings(partition="scavenge"), HolderFiles(tmp_path), "test", 60.0, calls)
    assert {(it["%A"], it["%u"]) for it in calls.jobs(60.0).jobs} == {(job, "nobody")}
    assert SlurmPeerPilots("mine", "root", calls=calls).look() == ()
    assert holder.listed() == {}
    assert holder.unknown([job, "99"]) == {"99"}
    lines = seen.read_text().splitlines()
    assert len(lines) == 4, "one of each squeue"
    assert {line.partition(": environment ")[2] for line in lines} == {"denied"}
    assert all(" -a " in line for line in lines), "the arguments are public"
