"""A policy around another one, which stands for it everywhere."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.domain.ports import Policy


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A policy with another one inside (``policy``), whose name it has.

    Other facts about it are looked up in the policy inside
    (:mod:`~bftrainer.decide.policies.requirements`).
    """

    policy: Policy

    @property
    def name(self) -> str:
        return self.policy.name


def innermost(policy: Policy) -> Policy:
    """Return the policy that is inside all wrappers; the policy itself if it is no wrapper."""
    while isinstance(policy, Wrapped):
        policy = policy.policy
    return policy
