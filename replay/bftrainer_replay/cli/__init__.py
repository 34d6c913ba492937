"""The commands of the replay package."""
