"""Generated event logs with the statistics of a supercomputer."""
