"""Several clusters under one slurmdbd: the option of all commands, the heading of squeue, and what
is refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from adapters.slurm.test_calls import programs
from support.live_house import configuration
from support.recorded_slurm import MARK, OLDEST, VERSIONS, recorded

from bftrainer.cluster.model import NodeRequest
from bftrainer.config.validation import check_table
from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.errors import InputFileError, SchedulerError, UserError
from bftrainer_clusters.holding.call_budget import CallKind
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.slurm import job_list
from bftrainer_clusters.slurm.calls import ENVIRONMENT, SlurmCalls
from bftrainer_clusters.slurm.clusters import (
    check_environment,
    chosen_cluster,
    cluster_check,
    of_cluster,
    parse_federation,
    without_heading,
)
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.hold import _Slurm
from bftrainer_clusters.slurm.jobs import SubmittedJob, parse_submitted
from bftrainer_clusters.slurm.observe import NODES_ARGV, SlurmScheduler
from bftrainer_clusters.slurm.pilot_job import SlurmPilotJob
from bftrainer_clusters.slurm.site import SlurmSite, _job_there, worker_settings

CONFIG = "SLURM_VERSION = 22.05.8\nClusterName = {}\nPrivateData = none\nEpilog[0] = /bin/true\n"
SQUEUE = ["squeue", "-a"]

every_version = pytest.mark.parametrize("version", VERSIONS)


@every_version
def test_the_recorded_answers_of_another_cluster(version: str) -> None:
    text = recorded("clusters.jobs.txt", version)
    assert text.startswith("CLUSTER: b\nJOBID|")
    (job,) = job_list.parse_jobs(without_heading(SQUEUE, text, "b"), MARK).jobs
    assert parse_submitted(recorded("clusters.sbatch.txt", version)) == SubmittedJob(job["%A"], "b")
    assert (
        without_heading(["squeue", "-h"], recorded("clusters.no-heading.txt", version), "b")
        == "RUNNING\n"
    )
    assert "No cluster 'nosuch' known by database" in recorded("clusters.unknown.txt", version)
    with pytest.raises(SchedulerError, match="begins with 'CLUSTER: b', expected 'CLUSTER: a'"):
        without_heading(SQUEUE, text, "a")
    with pytest.raises(SchedulerError, match=r"begins with 'JOBID\|.*', expected 'CLUSTER: b'"):
        without_heading(SQUEUE, text.partition("\n")[2], "b")
    assert parse_federation(recorded("clusters.alone.txt", version)) == ""


def test_a_cluster_in_a_federation_has_to_be_named() -> None:
    federation = parse_federation(recorded("clusters.federation.txt", OLDEST))
    assert federation == "fed"
    check = cluster_check("", "a", federation)
    assert (check.state, check.remedy) == (CheckStatus.BROKEN, 'set slurm.cluster = "a"')
    assert (
        "cluster a is in federation fed: without slurm.cluster, sbatch may start a holder on a "
        "sibling" in check.detail
    )
    for cluster, detail in (("a", "a (slurm.cluster)"), ("", "a (this host's slurm.conf)")):
        check = cluster_check(cluster, "a", federation if cluster else "")
        assert (check.state, check.detail) == (CheckStatus.OK, detail)


def test_every_command_names_the_cluster(tmp_path: Path) -> None:
    script = (
        f'echo "${{0##*/}} $*" >> {tmp_path}/calls; [ "${{0##*/}}" != squeue ] || echo "CLUSTER: b"'
    )
    names = ("sbatch", "squeue", "scancel", "scontrol", "sdiag", "sacctmgr")
    calls = SlurmCalls(programs(tmp_path, **dict.fromkeys(names, script)), cluster="b")
    for name in names:
        assert calls.run([name, "-x"], CallKind.LOOK, 10.0) == ""
    asked = (tmp_path / "calls").read_text().splitlines()
    assert asked == [f"{name} -M b -x" for name in names[:-1]] + ["sacctmgr -x"]
    assert worker_settings("", "b")["prefix"][:4] == ["srun", "-M", "b", "--jobid={job_id}"]  # type: ignore[index]
    assert of_cluster(NODES_ARGV, "") == [*NODES_ARGV]
    assert (ENVIRONMENT["SQUEUE_LOCAL"], ENVIRONMENT["SCONTROL_LOCAL"]) == ("1", "1"), (
        "no siblings of a federation"
    )


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            {"options": ["--clusters=b"]},
            "--clusters=b would submit holders to a cluster that the pilot does not list",
        ),
        ({"options": ["-M", "b"]}, "options: -M would submit"),
        ({"options": ["-Mb"], "cluster": "b"}, "options: -Mb would submit"),
        ({"cluster": "a,b"}, "'a,b' is not the name of one cluster"),
        ({"cluster": "all"}, "'all' is not the name of one cluster"),
        ({"cluster": "-x"}, "'-x' is not the name of one cluster"),
        ({"cluster": "b", "backend": "pyslurm"}, "pyslurm asks the cluster of slurm.conf only"),
    ],
)
def test_a_table_that_names_no_cluster_or_two_is_one_line(
    table: dict[str, object], words: str
) -> None:
    with pytest.raises(InputFileError, match=words) as caught:
        check_table({"partition": "p", **table}, SlurmSettings, "bftrainer.toml: slurm")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("cluster", "environment", "words"),
    [
        ("", {}, ""),
        ("b", {}, ""),
        ("b", {"SLURM_CLUSTERS": "b"}, ""),
        ("", {"SLURM_CLUSTERS": "b", "SLURM_CLUSTER_NAME": "b"}, ""),
        (
            "",
            {"SLURM_CLUSTERS": "b"},
            'SLURM_CLUSTERS=b, which bftrainer does not obey; set slurm.cluster = "b", or unset',
        ),
        ("", {"SLURM_CLUSTERS": "b", "SLURM_CLUSTER_NAME": "a"}, "which bftrainer does not obey"),
        (
            "a",
            {"SLURM_CLUSTERS": "b"},
            'slurm.cluster is "a", but SLURM_CLUSTERS=b; unset one of them',
        ),
    ],
)
def test_a_variable_that_names_another_cluster_is_an_error(
    cluster: str, environment: dict[str, str], words: str
) -> None:
    try:
        check_environment(cluster, environment, "bftrainer.toml")
        problem = ""
    except UserError as error:
        problem = str(error)
    assert words in problem
    assert bool(words) == bool(problem)


def test_commands_without_a_configuration_obey_the_variable() -> None:
    assert chosen_cluster({}) == ""
    assert chosen_cluster({"SLURM_CLUSTERS": "b"}) == "b"
    with pytest.raises(UserError, match="SLURM_CLUSTERS: 'a,b' is not the name of one cluster"):
        chosen_cluster({"SLURM_CLUSTERS": "a,b"})


def holder(folder: Path, sbatch: str, cluster: str = "", federation: str = "") -> _Slurm:
    """Where sbatch prints this."""
    (folder / "config").write_text(
        f"{CONFIG.format(cluster or 'a')}AccountingStorageType = slurmdbd\n"
    )
    (folder / "federation").write_text(federation)
    (folder / "sbatch-prints").write_text(sbatch)
    env = programs(
        folder,
        sbatch=f"cat {folder}/sbatch-prints",
        scancel=f'echo "$*" >> {folder}/canceled',
        sacctmgr="exit 1",
        scontrol=(
            f'case "$*" in *federation) cat {folder}/federation ;; *) cat {folder}/config ;; esac'
        ),
    )
    settings = SlurmSettings(partition="p", cluster=cluster)
    return _Slurm(settings, HolderFiles(folder), "test", 60.0, SlurmCalls(env, cluster=cluster))


@pytest.mark.parametrize(
    ("cluster", "printed"), [("", "5000\n"), ("", "5000;a\n"), ("b", "5000;b\n"), ("b", "5000\n")]
)
def test_a_job_on_the_pilots_cluster_is_a_holder(
    cluster: str, printed: str, tmp_path: Path
) -> None:
    slurm = holder(tmp_path, printed, cluster)
    slurm.begin()
    assert slurm.submit(NodeRequest("n1", 600.0)) == "5000"


@pytest.mark.parametrize(("cluster", "other"), [("", "b"), ("b", "a")])
def test_a_job_on_another_cluster_is_canceled_there_and_an_error(
    cluster: str, other: str, tmp_path: Path
) -> None:
    slurm = holder(tmp_path, f"5000;{other}\n", cluster)
    slurm.begin()
    words = f"sbatch submitted job 5000 to cluster {other}, expected {cluster or 'a'}: canceled"
    with pytest.raises(SchedulerError, match=words):
        slurm.submit(NodeRequest("n1", 600.0))
    assert (tmp_path / "canceled").read_text() == f"-M {other} 5000\n"
    programs(tmp_path, scancel="exit 1")
    with pytest.raises(SchedulerError, match=f"`scancel -M {other} 5000` ends it"):
        slurm.submit(NodeRequest("n1", 600.0))


def test_a_successor_on_another_cluster_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = programs(
        tmp_path,
        sbatch="echo '8;b'",
        scontrol="exit 0",
        squeue='case "$*" in *PD*) ;; *) echo "RUNNING|N/A|me|p|a|q|1:00|(null)|pilot" ;; esac',
    )
    monkeypatch.setenv("PATH", env["PATH"])
    own = SlurmPilotJob("7", tmp_path / "successor.sh")
    for here in ("b", ""):
        monkeypatch.setenv("SLURM_CLUSTER_NAME", here)
        assert own.submit_successor() == "8"
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "a")
    with pytest.raises(
        SchedulerError, match="job 8, to cluster b, expected a; `scancel -M b 8` ends it"
    ):
        own.submit_successor()


def test_no_holder_is_submitted_in_a_federation_without_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(
        SchedulerError, match=r'cluster a is in federation fed: .*: set slurm.cluster = "a"'
    ):
        holder(tmp_path, "1\n", federation=recorded("clusters.federation.txt", OLDEST)).begin()
    holder(tmp_path, "1\n", "a", recorded("clusters.federation.txt", OLDEST)).begin()


def test_a_scheduler_of_another_cluster_reads_its_jobs(tmp_path: Path) -> None:
    text = recorded("clusters.jobs.txt", OLDEST).replace(MARK, "MARK").replace("RUNNING", "PENDING")
    (tmp_path / "jobs").write_text(text)
    (tmp_path / "config").write_text(CONFIG.format("b"))
    (tmp_path / "nodes").write_text(recorded("empty.nodes.txt"))
    (tmp_path / "sdiag-prints").write_text(recorded("empty.sdiag.txt"))
    cases = (
        '*reservation) echo "No reservations in the system" ;; *node) cat nodes ;; *) cat '
        "config ;; esac"
    )
    env = programs(
        tmp_path,
        squeue='sed "s/MARK$/${SQUEUE_FORMAT##*|}/" ' + str(tmp_path / "jobs"),
        scontrol=f'cd {tmp_path}; [ "$1 $2" = "-M b" ] || exit 1; case "$*" in {cases}',
        sdiag=f"cat {tmp_path}/sdiag-prints",
    )
    seen = SlurmScheduler(calls=SlurmCalls(env, cluster="b")).observe()
    assert (len(seen.pending), len(seen.nodes)) == (1, 8)


def test_a_pilot_shows_no_demand_in_a_job_of_another_cluster() -> None:
    inside = {"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "a"}
    jobs = [
        _job_there(SlurmSettings(partition="p", cluster=cluster), inside)
        for cluster in ("", "a", "b")
    ]
    assert jobs == ["7", "7", ""]


def test_doctor_refuses_another_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLURM_CLUSTERS", "b")
    monkeypatch.delenv("SLURM_CLUSTER_NAME", raising=False)
    config = configuration({"nodes": {"holder": "slurm"}, "slurm": {"partition": "p"}})
    (check,) = SlurmSite().check(config, str(tmp_path / "bftrainer.toml"), tmp_path)
    assert check.state is CheckStatus.BROKEN
    assert 'set slurm.cluster = "b"' in check.detail
