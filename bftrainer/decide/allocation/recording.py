"""A solver that keeps the answers of another one, for the journal."""

from __future__ import annotations

from dataclasses import dataclass, field

from bftrainer.decide.domain.ports import Allocator
from bftrainer.decide.domain.problem import Answer, Problem

Solved = tuple[Problem, Answer]
"""A problem, and the answer that was decided on."""


@dataclass(slots=True)
class RecordingAllocator:
    """An allocator that records the answers of another one for the journal and the audit."""

    allocator: Allocator
    solved: list[Solved] = field(default_factory=list)

    def take_solved(self) -> tuple[Solved, ...]:
        """Return the problems since the last call, each with its answer, and forget them."""
        solved, self.solved = tuple(self.solved), []
        return solved

    @property
    def name(self) -> str:
        return self.allocator.name

    def solve(self, problem: Problem) -> Answer:
        answer = self.allocator.solve(problem)
        self.solved.append((problem, answer))
        return answer
