"""The settings from which policies are built."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.allocation.objectives import Objective
from bftrainer.decide.domain.ports import Allocator
from bftrainer.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What the configuration or the command line says about a policy; its factory gets this.

    ``forward_s`` is T_fwd in seconds; ``seed`` is for policies that break ties at random.
    ``options`` are parameters of the policy by name, as the user gave them. ``guard_h``, in hours,
    adds the starvation guard; ``gather_s``: seconds within which joining nodes are gathered.
    """

    allocator: Allocator
    objective: Objective
    forward_s: float = 120.0
    seed: int = 0
    options: tuple[tuple[str, float], ...] = ()
    guard_h: float | None = None
    gather_s: float = 0.0

    def option_values(self, policy: str, **defaults: float) -> dict[str, float]:
        """Return the parameters of the policy called ``policy``: ``defaults``, overridden by those
        that the user gave.

        Raises :class:`UnknownNameError` for one that is not in ``defaults``.
        """
        for name, _ in self.options:
            if name not in defaults:
                raise UnknownNameError(f"option of policy {policy}", name, defaults)
        return {**defaults, **dict(self.options)}
