"""The allocation problem of one event and the solvers that answer it, all with the same optimum."""
