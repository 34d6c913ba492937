"""Slurm's own limit on calls (``SlurmctldParameters=rl_enable``, 23.02 and later), and one user's
calls by sdiag. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

USED_OF_LIMIT = 0.8
"""The share of the site's limit that a pilot uses; the rest is for the user."""
_REFUSED = re.compile(
    r"rate limit|RPC limit exceeded|SLURMCTLD_COMMUNICATIONS_BACKOFF|no response within",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A bucket of ``bucket`` calls for each user, to which ``per_s`` are added."""

    bucket: int
    per_s: float

    @property
    def per_minute(self) -> float:
        return 60.0 * self.per_s


def rate_limit(config: Mapping[str, str], user: str) -> RateLimit | None:
    """Return the limit on a user's calls; None if the site has none, and for root and SlurmUser,
    which are exempt.
    """
    words = config.get("SlurmctldParameters", "").lower().split(",")
    if "rl_enable" not in words or user in ("root", config.get("SlurmUser", "").partition("(")[0]):
        return None
    pairs = [word.partition("=") for word in words]
    given = {key: int(value) for key, _, value in pairs if value.isdecimal()}
    # Slurm's defaults (man slurm.conf, 23.02).
    rate, period_s = (
        given.get("rl_refill_rate", 2),
        given.get("rl_refill_period", 1),
    )
    return RateLimit(given.get("rl_bucket_size", 30), rate / max(period_s, 1))


def is_refusal(problem: str) -> bool:
    """Return whether a command failed as one whose calls the limit refuses: it prints nothing,
    sleeps and tries again (26.05.5).
    """
    return bool(_REFUSED.search(problem))


def parse_calls_of(text: str, uid: int) -> int | None:
    """Return from sdiag's output the calls of one user since the statistics were reset; None if the
    user is not listed.
    """
    users = text.partition("by user")[2].partition("\n\n")[0]
    match = re.search(rf"^\s*\S+\s+\(\s*{uid}\) count:(\d+)\s", users, re.MULTILINE)
    return int(match[1]) if match else None
