"""Generated logs with a supercomputer's statistics."""
