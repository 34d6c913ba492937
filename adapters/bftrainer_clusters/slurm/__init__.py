"""Slurm: observe the cluster, run holder jobs, and check that the main queue can preempt them."""
