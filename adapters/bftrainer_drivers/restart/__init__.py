"""Driver ``restart``: programs that checkpoint and restart at each change of nodes."""
