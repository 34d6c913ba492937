"""Fixtures for tests of policies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import DEFAULT_OBJECTIVE, OBJECTIVES
from bftrainer.decide.policies.settings import PolicySettings


@pytest.fixture
def settings_with() -> Callable[..., PolicySettings]:
    """Settings with a policy's own options."""

    def make(**options: float) -> PolicySettings:
        return PolicySettings(
            Exact(), OBJECTIVES[DEFAULT_OBJECTIVE], options=tuple(options.items())
        )

    return make
