"""A policy around another one, which stands for it everywhere."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.domain.needs import Need
from bftrainer.domain.ports import Policy


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Name, needs and rigidity are those of ``policy``."""

    policy: Policy

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def needs(self) -> frozenset[Need]:
        needs: frozenset[Need] = getattr(self.policy, "needs", frozenset())
        return needs

    @property
    def rigid(self) -> bool:
        return bool(getattr(self.policy, "rigid", False))

    @property
    def unlimited(self) -> bool:
        return bool(getattr(self.policy, "unlimited", False))
