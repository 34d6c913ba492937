"""Allocation policies, one file each: (state with its memory, event) -> (decision, new memory)."""
