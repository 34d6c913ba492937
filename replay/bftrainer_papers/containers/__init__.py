"""Several trainers on one processor: the simulation for SpeCon and FlowCon only."""
