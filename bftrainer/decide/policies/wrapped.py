"""A policy around another one, which stands for it everywhere."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.domain.ports import Policy


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Its name is that of ``policy``; what else is asked of it (:mod:`.needs`) is asked of the
    policy inside.
    """

    policy: Policy

    @property
    def name(self) -> str:
        return self.policy.name


def innermost(policy: Policy) -> Policy:
    """The policy inside of all others."""
    while isinstance(policy, Wrapped):
        policy = policy.policy
    return policy
