"""What a checkpoint has of a script beside its model and its optimizer."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from bftrainer.console.client.adapt.project import ScriptModule


@dataclass
class KeptState:
    """What the checkpoint has beside model and optimizer, as expressions of the script.

    ``keep`` are objects with a state, by name; ``attributes`` those of objects without one, by the
    object; ``values`` variables of the whole training and
    ``epoch_values`` those of one epoch. ``guarded`` are statements that a resumed epoch must not
    run again. ``has_rates``: the script sets the learning rate. ``counting``: a line that counts
    steps, so that a step must have as many samples at every size, with the reason. ``read_after``:
    the lines after the loop that read names which only a pass of the loop sets. ``agreeing``: what
    all workers must do alike, by line: an early end of the outer loop, a rate that follows a loss.
    """

    keep: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, list[str]] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)
    global_values: list[str] = field(default_factory=list)
    epoch_values: list[str] = field(default_factory=list)
    guarded: list[ast.stmt] = field(default_factory=list)
    has_rates: bool = False
    counting: tuple[ScriptModule, int, str] | None = None
    unkept: list[str] = field(default_factory=list)
    read_after: dict[str, int] = field(default_factory=dict)
    attribute_reads: dict[str, str] = field(default_factory=dict)
    """Attributes that only a pass of the loop sets, with the place that reads them after it."""
    agreeing: dict[int, str] = field(default_factory=dict)
    freezes: bool = False
