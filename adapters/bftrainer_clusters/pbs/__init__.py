"""PBS Professional and OpenPBS: observe the cluster, run holder jobs, and check that main queues
can preempt them (docs/pbs.md).
"""
