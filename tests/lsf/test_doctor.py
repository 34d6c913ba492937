"""``bftrainer doctor --site`` on the stand-in: what it says, what it keeps, and that it only
reads.
"""

from __future__ import annotations

import pytest
from support.command_line import bftrainer
from support.lsf_lab import Lab

CONFIG = '[nodes]\nholder = "lsf"\n[lsf]\nqueue = "idle"\nslots_per_node = 4\npending = "none"\n'


def doctor(lab: Lab, config: str = CONFIG) -> tuple[int, str]:
    path = lab.root / "bftrainer.toml"
    path.write_text(config)
    done = bftrainer("doctor", "--site", path, "--keep", lab.root / "kept", env=lab.env)
    return done.status, done.out + done.err


def test_a_site_that_is_ready(lab: Lab) -> None:
    before = (lab.root / "state.json").read_text()
    status, said = doctor(lab)
    assert status == 0, said
    assert "4 hosts, 4 idle" in said
    assert "1 window, 4 whole nodes" in said
    assert "idle ends preempted jobs" in said
    assert "JOB_TERMINATE_INTERVAL 1 s" in said
    assert (lab.root / "state.json").read_text() == before
    assert not (lab.root / "kept").exists()


@pytest.mark.parametrize(
    ("of_queue", "config", "words"),
    [
        ({"terminate_when": ""}, CONFIG, "suspends preempted jobs, which keep memory and GPUs"),
        ({}, CONFIG + 'app = "dnn"\n', "application profile's SUSPEND action 'SIGTSTP'"),
    ],
)
def test_a_queue_or_an_application_profile_that_suspends_is_refused(
    lab: Lab, of_queue: dict[str, str], config: str, words: str
) -> None:
    lab.queue("idle", **of_queue)
    lab.change(apps={"dnn": {"suspend": "SIGTSTP"}})
    status, said = doctor(lab, config)
    assert status == 1
    assert words in said
    assert "docs/lsf.md" in said


def test_an_answer_about_the_queue_that_is_not_understood_is_kept(lab: Lab) -> None:
    lab.fault("bqueues", "truncated")
    status, said = doctor(lab)
    assert status == 1
    assert "truncated" in " ".join(said.split())
    assert (
        (lab.root / "kept" / "lsf-queue.txt")
        .read_text()
        .startswith("$ bqueues -l idle\n\nQUEUE: idle")
    )


def test_an_answer_that_is_not_understood_is_kept(lab: Lab) -> None:
    lab.edit(lambda state: state["hosts"]["node02"].update(status="closed_Moon"))
    status, said = doctor(lab)
    assert status == 1
    assert "closed_Moon" in said
    kept = (lab.root / "kept" / "lsf-hosts.txt").read_text()
    assert kept.startswith("$ bhosts -o")
    assert "closed_Moon" in kept


def test_a_site_whose_slots_are_configured_wrong(lab: Lab) -> None:
    status, said = doctor(lab, CONFIG.replace("= 4", "= 42"))
    assert status == 0
    assert "4 do not have 42 slots, such as node01" in said
    assert "0 whole nodes" in said


def test_an_lsf_that_is_down_or_not_there(lab: Lab) -> None:
    lab.fault("*", "down-at-once")
    status, said = doctor(lab)
    assert status == 1
    assert "LSF is down. Please wait ..." in said
    for path in lab.bin.iterdir():
        path.unlink()
    status, said = doctor(lab)
    assert status == 1
    assert "bhosts: not found" in said


def test_a_command_that_fails_is_kept_with_both_outputs_its_status_and_the_first_line_of_its_error(
    lab: Lab,
) -> None:
    usage = "bhosts: invalid option -- 'o'\\nUsage:\\na\\nb\\nc"
    lab.program("bhosts", f"printf 'half\\n'; printf \"{usage}\\n\" >&2; exit 255")
    status, said = doctor(lab)
    assert status == 1
    assert "exit status 255: bhosts: invalid option -- 'o'" in " ".join(said.split())
    kept = (lab.root / "kept" / "lsf-hosts.txt").read_text()
    assert kept.startswith("$ bhosts -o")
    assert kept.endswith(
        "half\n--- stderr\nbhosts: invalid option -- 'o'\nUsage:\na\nb\nc\n--- status 255\n"
    )


def test_what_is_not_used_is_not_asked_for_and_not_broken(lab: Lab) -> None:
    lab.fault("bjobs", "down-at-once")
    (lab.bin / "brsvs").unlink()
    _, said = doctor(lab, CONFIG + "reservations = false\n")
    assert "OK                  pending     bjobs: not used (lsf.pending)" in said
    assert "OK                  brsvs       brsvs: not used (lsf.reservations)" in said


@pytest.mark.parametrize(
    ("first", "label"),
    [
        ("IBM Spectrum LSF Standard 10.1.0.13, Apr 10 2022", "OK"),
        ("IBM Spectrum LSF Standard 10.1.0.1, Oct 10 2016", "WARNING"),
        ("volclava project 2.2, Nov 22 2026", "WARNING"),
    ],
)
def test_the_version_and_the_one_that_is_needed(lab: Lab, first: str, label: str) -> None:
    lab.program("lsid", f"echo '{first}'")
    _, said = doctor(lab)
    text = " ".join(said.split())
    assert f"{label} version lsid: {first}" in text
    assert ("need LSF 10.1.0.2" in text) is (label == "WARNING")
