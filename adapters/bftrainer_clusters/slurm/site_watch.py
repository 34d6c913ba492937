"""When a pilot reads the set-up of its site again, and what the answers allow: holders at all, and
how long they may last.

Sites change while a pilot runs. Without an answer, no holder is allowed at the start; later the
last answer counts for a while.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bftrainer.cluster.model import HoldingPermit
from bftrainer.decide.domain.checks import Check
from bftrainer.errors import CommandError, SchedulerError
from bftrainer_clusters.slurm.site_checks import WayChoice, accepted_names, permit_of
from bftrainer_clusters.slurm.site_facts import SiteSetup, fingerprint

EVERY_S = 3600.0
FIRST_AGAIN_S = 60.0
"""Time between two reads until the first answer."""
FAILED_AGAIN_S = 600.0
REFUSED_AGAIN_S = 900.0
"""Time between two reads while a check fails, for the day on which it is fixed."""
COUNTS_S = 3600.0
"""The time for which the last answer counts while there is no other."""
SHORTER_AGAIN_S = 60.0
_TOO_LONG = re.compile(r"Wall|TimeLimit\b|Requested time limit is invalid")


@dataclass
class SiteWatch:
    """The site as it was read: at the start, every :data:`EVERY_S`, and when something says that it
    may have changed.

    ``read`` asks Slurm, ``judge`` makes checks of the answer. While accounting is silent, its last
    answer counts. ``elapsed_s`` is the clock of all times here.
    """

    read: Callable[[], SiteSetup]
    judge: Callable[[SiteSetup], tuple[Check, ...]]
    elapsed_s: Callable[[], float] = time.monotonic
    longest_s: float = math.inf
    """The longest time limit that a holder may have."""
    choice: Callable[[SiteSetup], WayChoice] = lambda facts: WayChoice()
    """What the configuration says of who frees nodes for main jobs."""
    accepts: tuple[str, ...] = ()
    """The checks that fail here and that the user has accepted."""
    _facts: SiteSetup | None = None
    """The last whole answer, with accounting; None before the first."""
    _permit: HoldingPermit = field(default_factory=HoldingPermit)
    """The judgement on the latest answer."""
    _silence: str = "the set-up of Slurm has not been read yet"
    """Why the site is unknown; empty if it is known."""
    _silent_since_s: float | None = None
    _due_s: float = -math.inf
    """The time of the next read."""
    _next_limit_read_s: float = -math.inf
    """Before this time, a time limit that seems too long is no reason to read the site."""
    _next_wait_read_s: float = -math.inf
    """Before this time, a main job that waits is no reason to read the site."""
    _config: str = ""
    """The latest output of ``scontrol show config``."""

    def update(self) -> None:
        """Read the site now, and judge the answer. Without one, note why, and try again sooner.

        The longest time limit stays as it was while there is no answer: a holder with too long a
        limit is pending, and does no harm.
        """
        self._due_s = self.elapsed_s() + (FIRST_AGAIN_S if self._facts is None else FAILED_AGAIN_S)
        try:
            facts = self.read()
        except (CommandError, SchedulerError) as error:
            self._no_answer(str(error))
            return
        self._config = facts.config_text
        if silence := facts.accounting.silence:
            self._no_answer(silence)
            if self._facts is not None and not self._is_silent_for_long:
                accounting, unused_qos = self._facts.accounting, self._facts.unused_qos
                self._update_permit(replace(facts, accounting=accounting, unused_qos=unused_qos))
                return
        else:
            self._facts = facts
        self._update_permit(facts)
        # The user may have accepted that accounting is silent.
        if not silence or not self._permit.refusal:
            self._silence = ""
            self._silent_since_s = None
            self._due_s = self.elapsed_s() + (REFUSED_AGAIN_S if self._permit.refusal else EVERY_S)

    def _update_permit(self, facts: SiteSetup) -> None:
        """Set the permit and the accepted checks by these facts."""
        checks = self.judge(facts)
        self._permit = permit_of(checks, facts, self.choice(facts))
        self.accepts = accepted_names(checks)

    def _no_answer(self, why: str) -> None:
        """Record why the site could not be read, and since when."""
        self._silence = why
        if self._silent_since_s is None:
            self._silent_since_s = self.elapsed_s()

    @property
    def _is_silent_for_long(self) -> bool:
        """Whether the last answer no longer counts (:data:`COUNTS_S`)."""
        if self._silent_since_s is None:
            return False
        return self.elapsed_s() - self._silent_since_s >= COUNTS_S

    def update_if_due(self) -> None:
        """Read the site again if it is time."""
        if self.elapsed_s() >= self._due_s:
            self.update()

    def configuration_is(self, config_text: str) -> None:
        """Take the latest output of ``scontrol show config``, and read the site again if it shows
        that slurmctld was restarted or reconfigured since the site was read.
        """
        # The same object: compared without parsing it at each poll.
        if config_text is self._config or not config_text:
            return
        is_other = not self._config or fingerprint(config_text) != fingerprint(self._config)
        self._config = config_text
        if is_other:
            self.update()

    def reason_is(self, reason: str) -> None:
        """Read the site again if ``reason``, for which a holder does not start or was refused, is
        that its time limit is too long: the site's limit may be shorter by now.
        """
        if _TOO_LONG.search(reason) and self.elapsed_s() >= self._next_limit_read_s:
            self._next_limit_read_s = self.elapsed_s() + SHORTER_AGAIN_S
            self.update()

    def main_job_waits(self) -> bool:
        """Read the site again because a main job waits for longer than was promised, but at most
        every :data:`EVERY_S`; return whether it was read.
        """
        if self.elapsed_s() < self._next_wait_read_s:
            return False
        self._next_wait_read_s = self.elapsed_s() + EVERY_S
        self.update()
        return True

    @property
    def permit(self) -> HoldingPermit:
        """Whether holders may run. A check that fails ends running holders; so does a silence of
        Slurm that lasts for longer than its last answer counts.
        """
        latest, is_silent_for_long = self._permit, self._is_silent_for_long
        if latest.refusal:
            return replace(latest, releases=latest.releases or is_silent_for_long)
        still_counts = self._facts is not None and not is_silent_for_long
        if not self._silence or still_counts:
            return latest
        return replace(
            latest,
            refusal=f"it is unknown whether main jobs preempt holders: {self._silence}",
            releases=is_silent_for_long,
        )
