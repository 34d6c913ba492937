"""The conformance suite that every policy must pass::

    pytest --pyargs bftrainer_replay.conformance.policy_contract --bftrainer-policy NAME

NAME is an installed policy, or ``module:name`` of a class without arguments or of a function that
takes the settings.
"""

from __future__ import annotations

import pytest

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import DEFAULT_OBJECTIVE, OBJECTIVES
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.plugins import build_policy
from bftrainer_replay.conformance.checks import CHECKS, Build

SETTINGS = PolicySettings(Exact(), OBJECTIVES[DEFAULT_OBJECTIVE], forward_s=120.0, seed=1)


def builder_of(name: str) -> Build:
    """A function that builds the policy of that name."""

    def build() -> Policy:
        return build_policy(name, SETTINGS)

    return build


@pytest.fixture
def build(request: pytest.FixtureRequest) -> Build:
    """Return a function that builds the policy under test."""
    name = request.config.getoption("--bftrainer-policy", None)
    if not name:
        pytest.fail(
            "no policy given; use --bftrainer-policy NAME or --bftrainer-policy module:name",
            pytrace=False,
        )
    return builder_of(name)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_policy(check: object, build: Build) -> None:
    """One requirement."""
    assert callable(check)
    check(build)
