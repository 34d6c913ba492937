"""The trainer directory: what the pilot, the drivers and training scripts say to each other (docs/trainer-directory.md)."""
