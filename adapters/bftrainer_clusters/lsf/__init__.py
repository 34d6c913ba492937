"""LSF: observe the cluster, run holder jobs, and check that main queues can preempt them
(docs/lsf.md).
"""
