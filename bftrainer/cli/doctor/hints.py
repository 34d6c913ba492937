"""``bftrainer doctor --state``: whether hints arrive at the pilot (docs/hints.md)."""

from __future__ import annotations

import time
from pathlib import Path

from bftrainer.config.pilot import HintsConfig
from bftrainer.domain.checks import Check
from bftrainer.live.hints import HintCounts, send_test

_ARRIVES_S = 4.0
_OLD_S = 86_400.0


def examine_hints(folder: Path, config: HintsConfig) -> Check:
    """Send a test to the pilot, and tell what else has arrived."""
    if config.port is None:
        return Check.ok("hints", "off (hints.port is not set)")
    before = HintCounts.read(folder)
    if before is None:
        return Check.warning("hints", "no pilot has listened for hints yet", "start the pilot, or remove hints.port")
    where = f"UDP port {before.port} of {before.address}"
    if not (send_test(before) and _arrives(folder, before)):
        remedy = (
            "see `bftrainer events` whether the pilot runs; on another host, see whether a firewall drops UDP packets"
        )
        return Check.warning("hints", f"{where}: a test from this host did not arrive, {_told(before)}", remedy)
    if time.time() - max(before.last_s, before.since_s) > _OLD_S or not before.received:
        remedy = "install the Epilog (jobscripts/hint.sh) with this address and port, and see docs/hints.md"
        return Check.warning("hints", f"{where}: a test from this host arrived, {_told(before)}", remedy)
    return Check.ok("hints", f"{where}: a test from this host arrived, {_told(before)}")


def _arrives(folder: Path, before: HintCounts) -> bool:
    """Whether the pilot counts one more test; it writes its counts once a second."""
    give_up_s = time.monotonic() + _ARRIVES_S
    while time.monotonic() < give_up_s:
        counts = HintCounts.read(folder)
        if counts is not None and counts.tests > before.tests:
            return True
        time.sleep(0.1)
    return False


def _told(counts: HintCounts) -> str:
    now_s = time.time()
    since = f"since the pilot began to listen {_ago(now_s - counts.since_s)}"
    if not counts.received:
        return f"but no hint {since}"
    return f"{counts.received} hints {since}, the last {_ago(now_s - counts.last_s)}"


def _ago(seconds: float) -> str:
    seconds = max(seconds, 0.0)
    return f"{seconds:.0f} s ago" if seconds < 600 else f"{seconds / 60:.0f} min ago"
