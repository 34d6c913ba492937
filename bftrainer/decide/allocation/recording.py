"""A solver that keeps the answers of another one, for the journal."""

from __future__ import annotations

from dataclasses import dataclass, field

from bftrainer.decide.domain.ports import Allocator
from bftrainer.decide.domain.problem import Answer, Problem


@dataclass(slots=True)
class RecordingAllocator:
    """An allocator that records the answers of another one for the journal."""

    allocator: Allocator
    answers: list[Answer] = field(default_factory=list)

    def taken(self) -> tuple[Answer, ...]:
        """The answers since the last call."""
        answers, self.answers = tuple(self.answers), []
        return answers

    @property
    def name(self) -> str:
        return self.allocator.name

    def solve(self, problem: Problem) -> Answer:
        answer = self.allocator.solve(problem)
        self.answers.append(answer)
        return answer
