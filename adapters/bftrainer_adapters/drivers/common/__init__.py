"""What all drivers share: worker processes, their logs, the event writer (docs/trainer-directory.md)."""
