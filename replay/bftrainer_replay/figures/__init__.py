"""Figures of a log and of a replay (matplotlib, Agg, no global state)."""
