"""The conformance suite: all of ours pass it, policies that break a promise do not, and so does
that of the docs.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from core.test_loop_properties import POOL_POLICIES
from support.ran import python

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer_replay.conformance import checks
from bftrainer_replay.conformance.policy_contract import builder_of


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("policy", POOL_POLICIES)
def test_ours_pass(policy: str, check: object) -> None:
    check(builder_of(policy))


@dataclass(frozen=True)
class Spoiled:
    """Equal share with something wrong."""

    wrong: str
    name: str = "spoiled"
    calls = itertools.count()

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        decision, memory = EqualShare().decide(state, event)
        counts, asked = decision.counts, next(self.calls)
        if self.wrong == "one more":
            return Decision(tuple(n + (j == 0) for j, n in enumerate(counts))), memory
        if self.wrong == "too few counts":
            return Decision(counts[1:]), memory
        if self.wrong == "floats":
            return Decision(tuple(float(n) for n in counts)), memory  # type: ignore[arg-type]
        if self.wrong == "wakes now":
            return replace(decision, wake_at_s=state.at_s), memory
        if self.wrong == "impure":
            return (Decision((0,) * len(counts)), memory) if asked % 2 else (decision, memory)
        if self.wrong == "list as memory":
            return decision, [1]
        if self.wrong == "nobody":
            return Decision((0,) * len(counts)), memory
        raise AssertionError(self.wrong)


@pytest.mark.parametrize(
    ("wrong", "check", "complaint"),
    [
        ("one more", checks.check_counts_are_legal, "nodes"),
        ("one more", checks.check_nothing_to_give, "from an empty pool"),
        ("too few counts", checks.check_counts_are_legal, "counts for"),
        ("floats", checks.check_counts_are_legal, "not all int"),
        ("wakes now", checks.check_counts_are_legal, "wake_at_s is"),
        ("impure", checks.check_pure, "keeps state|decides differently"),
        ("nobody", checks.check_a_lone_trainer_runs, "never got a node"),
    ],
)
def test_broken_promises_are_found(wrong: str, check: checks.Build, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check(lambda: Spoiled(wrong))  # type: ignore[call-arg]


def test_a_memory_that_cannot_be_journaled_is_found() -> None:
    with pytest.raises(Exception, match="cannot be journaled"):
        checks.check_memory_survives(lambda: Spoiled("list as memory"))


def test_a_name_with_blanks_is_found() -> None:
    with pytest.raises(AssertionError, match="one word"):
        checks.check_name(lambda: Spoiled("", name="my policy"))


def conformance(folder: Path, policy: str) -> subprocess.CompletedProcess[str]:
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs")
    what = ("bftrainer_replay.conformance.policy_contract", "--bftrainer-policy", policy)
    return python(
        *command, *what, limit_s=120, cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)}
    )


def test_the_policy_of_the_docs_passes_and_a_spoiled_one_fails(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "policies.md"
    (text,) = re.findall(r"```python\n(from dataclasses.*?)```", page.read_text(), re.DOTALL)
    assert len(text.splitlines()) <= 30
    (tmp_path / "mine.py").write_text(text)
    passed = conformance(tmp_path, "mine:MyPolicy")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert f"{len(checks.CHECKS)} passed" in passed.stdout
    (tmp_path / "mine.py").write_text(text.replace("free -= nodes", "pass"))
    failed = conformance(tmp_path, "mine:MyPolicy")
    assert failed.returncode == 1
    assert "nodes were allocated, but the pool has" in failed.stdout
