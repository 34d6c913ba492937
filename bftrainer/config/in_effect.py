"""The configuration that a running pilot follows."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.config.pilot import PilotConfig


@dataclass(slots=True)
class ConfigCell:
    """Holds the configuration in effect; only a reload sets it.

    Its readers take from ``now`` what they need at the time when they need it.
    """

    now: PilotConfig
