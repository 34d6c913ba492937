"""Shared by the holders of all schedulers: one preemptible one-node job per fragment."""
