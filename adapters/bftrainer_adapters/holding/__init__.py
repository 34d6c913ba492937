"""What the holders of both schedulers share: one preemptible one-node job per fragment."""
