"""The audit of decisions: a process beside the pilot that solves them again as the paper's MILP."""
