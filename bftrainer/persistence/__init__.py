"""What survives a crash: the database, the registry and journal in it, and the spool of requests."""
