"""``bftrainer pilot --submit``: the job of the pilot, its place at public sites, and refusals."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.answering_slurm import answering_slurm
from support.command_line import bftrainer, complaint
from support.public_sites import SITES
from support.unseen_sites import UNSEEN

from bftrainer.cluster.pilot_submission import PilotJobWishes
from bftrainer.errors import UndecidedError, UserError
from bftrainer_clusters.slurm.associations import Association
from bftrainer_clusters.slurm.pilot_place import limit_text, pilot_options
from bftrainer_clusters.slurm.site_choice import SiteView

ALL_SITES = {**SITES, **UNSEEN}
ROOT = "[workers]\nallow_root = true\n"
"""Tests of developers may run as root."""
CONFIG = '[nodes]\nholder = "slurm"\n[slurm]\npartition = "scavenge"\n' + ROOT


ASKED = {
    "a QOS that guarantees two hours": ("--qos", ("debug", "premium", "regular")),
    "one QOS that preempts, and four that do not": ("--qos", ("prod", "test")),
    "a checkpoint QOS on the nodes of the labs": ("--partition", ("compute", "gpu-a40")),
    "partitions by the size of jobs, and PreemptMode=OFF": ("--partition", ("ngs12", "ngs48")),
}
EXPECTED = {
    "a partition below three others": "cpu",
    "a second partition on contributed nodes": "skylake",
    "two preemptible QOSes in a partition of their own": "htc",
    "a QOS called scavenger where partitions decide": "l40s",
    "an exempt time of ten minutes": "gpu",
    "preemption by QOS, and one QOS for all": "course",
    "two partitions without preemption": "parallel",
    "one partition without preemption": "general",
    "a secondary partition below the owners'": "stat",
    "a site that never ends a job, and hides the others'": "all",
    "a preemptable partition below ten others": "cpu",
    "two scavenger partitions, of CPUs and of GPUs": "batch",
    "partitions by processor, without preemption": "epyc",
    "an interactive partition above the queue of everybody": "interactive",
    "the template of a cloud": "debug",
    "a preemptable QOS in the accounts of facilities": "roma",
    **dict.fromkeys(ASKED, ""),
}
"""The partition of the pilot's job; the user is asked where several would do."""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the answers of a Slurm whose partition main preempts scavenge."""
    return answering_slurm(tmp_path, monkeypatch)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "my state"
    folder.mkdir(mode=0o700)
    (folder / "bftrainer.toml").write_text(CONFIG)
    return folder


@pytest.mark.parametrize("name", ALL_SITES)
def test_the_pilot_runs_where_nothing_preempts_it(name: str) -> None:
    site = ALL_SITES[name]
    view = SiteView(site.facts, "me")
    expected, asked = EXPECTED[name], ASKED.get(name)
    if asked is not None:
        with pytest.raises(UndecidedError) as question:
            pilot_options(view, site.settings, PilotJobWishes())
        assert (question.value.option, question.value.choices) == asked
        return
    options, reasons = pilot_options(view, site.settings, PilotJobWishes())
    assert options["--partition"] == f"--partition={expected}"
    assert len(reasons) == len(options)


def test_the_holders_qos_is_not_the_pilots() -> None:
    site = ALL_SITES["a preemptable QOS in the accounts of facilities"]
    own = Association("cryo", "me", qos=frozenset({"normal", "preemptable"}))
    view = SiteView(site.facts, "me", (own,), "cryo")
    wishes = PilotJobWishes(partition=site.settings.partition)
    options, _ = pilot_options(view, site.settings, wishes)
    assert "--qos" not in options, "normal is the default"
    only = SiteView(site.facts, "me", (Association("cryo", "me", qos=frozenset({"preemptable"})),))
    with pytest.raises(UserError, match="a pilot would not last"):
        pilot_options(only, site.settings, PilotJobWishes())


def test_limits_are_written_as_sbatch_reads_them() -> None:
    assert (limit_text(86_400), limit_text(5_400)) == ("1-00:00:00", "0-01:30:00")


def test_a_dry_run_shows_the_script_and_submits_nothing(slurm: Path, state: Path) -> None:
    shown = bftrainer("pilot", "--submit", "--dry-run", "--state", state)
    assert (shown.status, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert "#SBATCH --partition=main" in lines
    assert [line for line in lines if "--time=" in line] == ["#SBATCH --time=1-00:00:00"]
    assert f"export BFTRAINER_STATE='{state}'" in lines
    assert lines.index("#SBATCH --partition=main") < lines.index("set -uo pipefail")
    assert "##SBATCH" not in shown.out.replace("##SBATCH --account=ACCOUNT", "")
    subprocess.run(["bash", "-n"], input=shown.out, text=True, check=True)
    assert sorted(path.name for path in state.iterdir()) == ["bftrainer.toml"]


def test_submit_writes_the_script_and_says_how_to_watch(slurm: Path, state: Path) -> None:
    (slurm / "job").write_text("4711")
    ended = bftrainer("pilot", "--submit", "--state", state, "--time-limit", "7200")
    assert (ended.status, ended.err) == (0, "")
    assert "submitted: job 4711" in ended.out
    assert f"watch it: squeue -j 4711; bftrainer top --state '{state}'" in ended.out
    assert f"output: {state}/bftrainer-pilot.4711.out" in ended.out
    assert "partition main: the default one, and Slurm preempts no job there" in ended.out
    assert (slurm / "folder").read_text() == str(state)
    assert "#SBATCH --time=0-02:00:00\n" in (state / "pilot.slurm").read_text()
    (slurm / "squeue").write_text("PENDING|N/A|me|main|lab|normal|1-00:00:00||bftrainer-pilot\n")
    again = bftrainer("pilot", "--submit", "--state", state)
    assert "job 4711, the pilot of" in complaint(again)
    (slurm / "squeue").write_text("COMPLETED|N/A|me|main|lab|normal|1-00:00:00||bftrainer-pilot\n")
    assert bftrainer("pilot", "--submit", "--state", state).status == 0


def test_a_script_of_the_users_own_is_submitted_as_it_is(slurm: Path, state: Path) -> None:
    own = "#!/bin/bash\n#SBATCH --partition=service\n"
    (state / "pilot.slurm").write_text(own)
    (slurm / "job").write_text("4712")
    ended = bftrainer("pilot", "--submit", "--state", state)
    assert ended.status == 0
    assert "is your own script, and is used as it is" in ended.out
    assert (state / "pilot.slurm").read_text() == own
    refused = bftrainer("pilot", "--submit", "--partition", "main", "--state", state)
    assert "is a script of your own; set the options there" in complaint(refused)


def test_the_site_is_not_asked_about_a_script_of_the_users_own(slurm: Path, state: Path) -> None:
    (slurm / "show_partition").write_text("garbled")
    kept = state.parent / "kept.slurm"
    kept.write_text("#!/bin/bash\nbftrainer pilot\n")
    (state / "pilot.slurm").symlink_to(kept)
    (slurm / "job").write_text("4711")
    assert bftrainer("pilot", "--submit", "--state", state).status == 0
    assert (state / "pilot.slurm").is_symlink()
    assert (slurm / "state").read_text() == str(state), "of the job's environment"


def test_a_written_script_that_was_changed_is_the_users_own(slurm: Path, state: Path) -> None:
    script = state / "pilot.slurm"
    (slurm / "job").write_text("4711")
    (slurm / "squeue").write_text("COMPLETED|N/A|me|main|lab|normal|1-00:00:00||bftrainer-pilot\n")
    for limit_s in (7200, 3600):
        options = ("--submit", "--time-limit", limit_s, "--state", state)
        assert bftrainer("pilot", *options).status == 0
    changed = script.read_text().replace("set -uo pipefail", "module load site\nset -uo pipefail")
    assert "#SBATCH --time=0-01:00:00\n" in changed
    script.write_text(changed)
    assert bftrainer("pilot", "--submit", "--state", state).status == 0
    assert script.read_text() == changed


def test_the_pilots_job_is_one_of_the_configured_cluster(slurm: Path, state: Path) -> None:
    (state / "bftrainer.toml").write_text(CONFIG.replace("[workers]", 'cluster = "b"\n[workers]'))
    (slurm / "job").write_text("4711;b")
    submitted = bftrainer("pilot", "--submit", "--state", state)
    assert "#SBATCH --clusters=b\n" in (state / "pilot.slurm").read_text()
    assert "watch it: squeue -M b -j 4711;" in submitted.out
    (slurm / "squeue_-M_b").write_text(
        "PENDING|N/A|me|main|lab|normal|1-00:00:00||bftrainer-pilot\n"
    )
    assert "waits or runs already" in complaint(bftrainer("pilot", "--submit", "--state", state))
    dry = bftrainer("pilot", "--submit", "--dry-run", "--state", state)
    assert dry.status == 0, "nothing is submitted"


def test_an_answer_without_an_id_is_no_reason_to_submit_again(slurm: Path, state: Path) -> None:
    (slurm / "job").write_text("sbatch: a banner of the site")
    failed = bftrainer("pilot", "--submit", "--state", state)
    assert failed.status == 1
    assert "the job may have been submitted: look for bftrainer-pilot" in failed.err
    assert failed.err.count("\n") == 1


def test_what_is_no_script_and_no_id_is_one_line(slurm: Path, state: Path) -> None:
    for name, expected in ("pilot.slurm", "a job script"), ("pilot-job", "a job ID"):
        os.mkfifo(state / name)
        refused = complaint(bftrainer("pilot", "--submit", "--state", state))
        assert f"expected {expected}" in refused
        (state / name).unlink()


def test_a_time_limit_above_the_longest_is_remarked() -> None:
    site = ALL_SITES["a preemptable partition below ten others"]
    wishes = PilotJobWishes(limit_s=1e6)
    _, reasons = pilot_options(SiteView(site.facts, "me"), site.settings, wishes)
    assert reasons[-1].endswith(
        "though partition cpu has MaxTime of 7-00:00:00: it may never start"
    )


@pytest.mark.parametrize(
    ("config", "options", "expected"),
    [
        ("", ("--submit",), "holder 'trace' does not run as a job of its own"),
        ('[nodes]\nholder = "oar"\n' + ROOT, ("--submit",), "run `bftrainer pilot` here"),
        ('[nodes]\nholder = "allocation"\n' + ROOT, ("--submit",), "in a job of yours"),
        (CONFIG, ("--dry-run",), "need --submit"),
        (CONFIG, ("--submit", "--partition", "nowhere"), "expected one of main, scavenge"),
        (CONFIG, ("--submit", "--config", "x"), "--config: a submitted pilot reads"),
        (
            '[nodes]\nholder = "lsf"\n[lsf]\nqueue = "idle"\nslots_per_node = 4\n' + ROOT,
            ("--submit",),
            "LSF does not show which queue",
        ),
    ],
)
def test_what_cannot_be_submitted_is_one_line(
    slurm: Path, state: Path, config: str, options: tuple[str, ...], expected: str
) -> None:
    (state / "bftrainer.toml").write_text(config)
    assert expected in complaint(bftrainer("pilot", *options, "--state", state))


def test_without_a_configuration_the_line_names_init(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    refused = bftrainer("pilot", "--submit", "--state", tmp_path / "s")
    assert "bftrainer init --holder SCHEDULER" in complaint(refused)
