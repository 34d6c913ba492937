"""How long tests wait for what must happen: a limit that is not reached costs nothing, one too
short costs a release.
"""

from __future__ import annotations

PATIENCE = 3.0
"""Limits in tests are about what this takes on two idle cores, with room; a busy or slower machine
gets so many times that.
"""
