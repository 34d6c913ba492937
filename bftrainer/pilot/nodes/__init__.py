"""The nodes of a live pilot: which to request, which to release, and why."""
