"""The solvers of the allocation problem, all with the same optimum; and from counts to nodes."""
