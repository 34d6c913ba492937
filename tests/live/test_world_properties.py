"""Whatever happens in whatever order: nodes are used by one trainer at a time, nothing submitted is
lost, all is let go.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.live_house import House, house, spec
from support.random_faults import KINDS, Night, nights

from bftrainer.cluster.model import Availability, Device, NodeView, PendingJob
from bftrainer.errors import StoreError
from bftrainer.fragment_names import node_of
from bftrainer.pilot.persistence.registry_writer import RegistryWriter
from bftrainer.pilot.persistence.spool import RequestKind

NODES = ("n1", "n2", "n3", "n4", "n5")
NAMES = ("a", "b", "c")
WHAT = st.sampled_from(
    (
        "take",
        "give",
        "plan",
        "pause",
        "resume",
        "cancel",
        "finish",
        "fail",
        "down",
        "up",
        "crash",
        "progress",
    )
)
HAPPENINGS = st.lists(
    st.tuples(st.floats(0.0, 40.0), WHAT, st.sampled_from(NODES), st.sampled_from(NAMES)),
    max_size=14,
)
SIZES = st.fixed_dictionaries(
    {name: st.tuples(st.integers(1, 3), st.integers(0, 3)) for name in NAMES}
)


def happen(home: House, what: str, node: str, name: str) -> None:
    driver = home.launcher.drivers.get(name)
    match what:
        case "take":
            home.cluster.take(node)
        case "give":
            home.cluster.give(node)
        case "plan":
            home.cluster.pending = [
                PendingJob(
                    "9", "else", ("main",), 1, home.clock.now_s() + soon_s, frozenset({node})
                )
                for soon_s in ((7.0,) if name == "a" else (25.0,))
            ]
        case "pause" | "resume" | "cancel":
            home.ask(RequestKind(what), name)
        case "finish" if driver:
            home.launcher.finish(name)
        case "fail":
            home.launcher.behaviour[name] = "fails"
        case "down" | "up":
            home.cluster.down = what == "down"
        case "progress" if driver:
            home.launcher.progress(name, (driver.view.samples or 0) + 10)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(HAPPENINGS, SIZES, st.integers(1, 3), st.sets(st.sampled_from(NODES), max_size=3))
def test_any_order_of_happenings(
    happenings: list[tuple[float, str, str, str]],
    sizes: dict[str, tuple[int, int]],
    places: int,
    gpus: set[str],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = house(Path(folder) / "state", decisions={"solver": "exact", "max_parallel": places})
        home.cluster.hardware = {
            node: NodeView(node, Availability.FREE, devices=(Device("", 2),)) for node in gpus
        }
        home.cluster.give(*NODES[:3])
        home.launcher.slow["a"] = 1.7
        for name, (low, more) in sizes.items():
            home.submit(spec(name, min_nodes=low, max_nodes=low + more))
        crash = False

        def at_step(step: str) -> None:
            nonlocal crash
            if crash and step.endswith(("before", "written")):
                crash = False
                raise StoreError(f"made up, at {step}")

        home.at_step = at_step

        def will_crash() -> None:
            nonlocal crash
            crash = True

        for at_s, what, node, name in happenings:
            home.at(
                at_s,
                will_crash
                if what == "crash"
                else lambda w=what, n=node, t=name: happen(home, w, n, t),
            )
        ended = False
        while not ended:
            try:
                home.pilot(max(60.0 - home.clock.elapsed_s(), 5.0))
                ended = True
            except StoreError:
                home.clock.sleep(1.0)  # the supervisor starts it again
        for _, _, nodes in home.launcher.orders:
            assert len({node_of(name) in gpus for name in nodes}) <= 1, "a trainer on two classes"
        assert not [
            f
            for f in home.cluster.fragments.values()
            if f.why != "released" and f.why != "preempted"
        ]
        home.assert_in_order(*NAMES)


# --- A short ``make faults``: nothing is lost, nothing is done twice, and the journal decides the
# same again


@pytest.mark.slow
def test_two_hundred_random_faults() -> None:
    (night,) = nights(200, seed=1)
    assert [*night.lost, *night.doubled, *night.wrong] == []
    assert set(night.struck) == set(KINDS)
    assert night.decisions > 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lost", "doubled"])
def test_the_tool_reports_what_it_should(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pilot that forgets a submission, and one whose node-hours are booked twice."""
    night = Night(tmp_path / "state", random.Random(1), 6)
    if kind == "lost":
        night.wanted["forgotten"] = 1.0
        monkeypatch.setattr(night, "unfinished", list)  # it is not waited for
    else:
        add = RegistryWriter.add_usage
        monkeypatch.setattr(RegistryWriter, "add_usage", lambda *given: [add(*given), add(*given)])
    night.run()
    assert getattr(night, kind)
