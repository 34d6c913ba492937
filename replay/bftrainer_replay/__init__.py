"""Replay: drive the decision core with a recorded or generated log instead of a live scheduler."""
