"""Facts that a policy or an objective needs of a trainer, beyond the keys of every trainer file."""

from __future__ import annotations

from enum import Enum


class Need(Enum):
    """A fact that a policy or an objective needs of every trainer.

    Each lists its needs in an attribute ``needs``; without that attribute, every trainer will do.
    """

    LENGTH = "the total number of samples (samples_total)"
    LOSSES = "the value of the evaluation function in progress reports (reports_loss)"
    PRIORITY = "a priority above 0 (priority)"
