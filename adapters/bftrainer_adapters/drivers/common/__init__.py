"""What every driver shares: the trainer's directory, its event log, worker processes (``docs/trainer-directory.md``)."""
