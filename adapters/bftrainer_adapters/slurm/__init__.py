"""Slurm: what it shows, the holder jobs in it, and whether its setup lets holders give way."""
