"""Leases of holders: a pilot renews them, and a payload whose lease has expired ends by itself."""

from __future__ import annotations

RENEWALS = 6.0
"""Renewals per lease. A payload expects this many, so that one late renewal ends nothing."""
