"""Shared by the holders of both schedulers: one preemptible one-node job per fragment."""
