"""Slurm's text outputs: what was recorded is read, what is cut short or strange is refused with its
text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recorded_slurm import MARK, foreign, recorded

from bftrainer.cluster.model import Hidden
from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm import text as slurm_text
from bftrainer_clusters.slurm.hold import Listing
from bftrainer_clusters.slurm.jobs import HolderJob, parse_known, parse_steps
from bftrainer_clusters.slurm.peers import parse_peers
from bftrainer_clusters.slurm.states import NodeFlag, flags_of

OURS = "bftrainer: idle node held by pilot test of root; it is given back at once when wanted"


def test_times_of_the_server() -> None:
    assert slurm_text.parse_times("sdiag output at Sat Nov 21 01:31:59 2026 (7)\n") == (7.0, None)


def test_settings() -> None:
    text = recorded("config.txt")
    assert slurm_text.parse_hidden(text, "ann") == frozenset()
    hides = text.replace("= none", "= jobs,usage,reservations")
    assert slurm_text.parse_hidden(hides, "ann") == {Hidden.JOBS, Hidden.RESERVATIONS}
    assert slurm_text.parse_hidden(hides, "root") == frozenset()
    assert slurm_text.parse_has_epilog(text)
    assert not slurm_text.parse_has_epilog(text.replace("/bin/true", "(null)"))
    without = re.sub(r"^Epilog .*\n", "", text, flags=re.MULTILINE)
    assert not slurm_text.parse_has_epilog(without), "as 24.11 and later print it"
    assert slurm_text.parse_has_epilog("Epilog[0]               = /bin/true\n" + without)
    with pytest.raises(SchedulerError, match="truncated"):
        slurm_text.parse_has_epilog(without.replace("EpilogSlurmctld", "Later"))
    assert not slurm_text.parse_has_cgroups("ProctrackType           = proctrack/linuxproc\n")
    assert slurm_text.parse_has_cgroups(
        "PrologFlags = Alloc\nProctrackType           = proctrack/cgroup\nX = (null)\n"
    )


def holders(text: str, comment: str = OURS) -> dict[str, HolderJob]:
    return Listing(comment).read(text, MARK)


PARSERS: dict[str, Callable[[str], object]] = {
    "planned.nodes.txt": slurm_text.parse_nodes,
    "planned.pending.txt": lambda text: slurm_text.parse_pending(text, MARK),
    "reasons.pending.txt": lambda text: slurm_text.parse_pending(text, MARK),
    "hostile.pending.txt": lambda text: slurm_text.parse_pending(text, MARK),
    "hostile.peers.txt": lambda text: parse_peers(text, MARK, "test", "root"),
    "planned.reservations.txt": slurm_text.parse_reservations,
    "planned.holders.txt": holders,
    "planned.steps.txt": lambda text: parse_steps(text, MARK),
    "planned.known.txt": lambda text: parse_known(text, MARK),
}


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize(
    "text", ["", "\n", "slurm_load_jobs error: Unable to contact slurm controller\n", "{}\n"]
)
def test_no_answer_is_not_an_empty_one(name: str, text: str) -> None:
    with pytest.raises(SchedulerError):
        PARSERS[name](text)


@settings(deadline=None)
@given(st.data())
def test_an_answer_that_is_cut_within_a_record_is_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(PARSERS)))
    text = recorded(name)
    cut = data.draw(st.integers(0, len(text) - 1).filter(lambda i: i == 0 or text[i - 1] != "\n"))
    with pytest.raises(SchedulerError):
        PARSERS[name](text[:cut])


@pytest.mark.data
def test_maintenance_of_25_11_and_outputs_that_are_refused() -> None:
    nodes = slurm_text.parse_nodes(
        foreign("scheduler-output-samples", "sckyzo-text/scontrol_nodes.txt")
    )
    assert flags_of(nodes[0].state) >= {NodeFlag.MAINTENANCE, NodeFlag.RESERVED, NodeFlag.DRAIN}
    # Not in seconds, relative, or of 2017 without an epoch.
    for name in ("reservations.txt", "reservations_relative_time.txt"):
        text = foreign("scheduler-output-samples", f"sckyzo-text/{name}")
        with pytest.raises(SchedulerError):
            slurm_text.parse_reservations(text)
    with pytest.raises(SchedulerError, match="Apr 12 11:04:01 2017"):
        slurm_text.parse_times(foreign("scheduler-output-samples", "vpenso-text/sdiag.txt"))
