"""Several trainers on one processor: the simulation that only SpeCon and FlowCon need."""
