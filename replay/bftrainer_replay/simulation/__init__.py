"""The replayed world: nodes from a log, trainers from a workload, progress under a cost model."""
