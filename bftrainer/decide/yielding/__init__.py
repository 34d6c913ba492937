"""Which held nodes a pilot releases for main jobs that wait for nodes, where the scheduler ends no
holders: one rule, for the live pilot and for the simulated main queue of a replay.

- ``rule``: the decision after a look at the queue, and what is remembered for the next.
- ``offers``, ``judging``: nodes that are offered to a job, and when an offer is void.
- ``queue_changes``: whether the scheduler's plan for a job may have changed.
- ``late_lists``: jobs that start while a look reads the cluster.
- ``pool``: the nodes that are left for the jobs further down the queue.
- ``reserves``: idle nodes that are left to jobs, and rests after canceled jobs.
- ``listed_holders``: the holders of several pilots and users, of whom some may not yield.
- ``blind``, ``low_water``: the rule without a queue, and a reserve that sizes itself.
- ``facts``, ``node_sets``, ``times_by_node``: what a look shows.
"""
