"""What every policy may be built from; each takes what it needs."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.allocation.objectives import Objective
from bftrainer.domain.ports import Allocator
from bftrainer.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """``forward_s`` is T_fwd in seconds; ``seed`` serves policies that break ties by lot.

    ``options`` are a policy's own parameters by name, as the user gave them; ``guard_h`` asks for the starvation guard.
    """

    allocator: Allocator
    objective: Objective
    forward_s: float = 120.0
    seed: int = 0
    options: tuple[tuple[str, float], ...] = ()
    guard_h: float | None = None

    def option_values(self, policy: str, **defaults: float) -> dict[str, float]:
        """The policy's own parameters: its defaults, overridden by what the user gave; unknown names are refused."""
        for name, _ in self.options:
            if name not in defaults:
                raise UnknownNameError(f"option of policy {policy}", name, defaults)
        return {**defaults, **dict(self.options)}
