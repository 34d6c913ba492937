"""The clocks of a pilot, each with a type of its own: the type checker finds a time of one where
another is expected.

A difference of two times is a plain ``float`` in seconds; a time that is worked out says again
which clock it belongs to.
"""

from __future__ import annotations

from typing import NewType

HostS = NewType("HostS", float)
"""Seconds since 1970 by this host's clock, which may be set: for users, files and other hosts."""
PilotS = NewType("PilotS", float)
"""Seconds since 1970 by the pilot's own clock (:mod:`bftrainer.pilot.steady_clock`), which is never
set: for decisions.
"""
ElapsedS = NewType("ElapsedS", float)
"""Seconds from an arbitrary origin, monotonic: for timeouts and intervals."""
