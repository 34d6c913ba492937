"""Many replays: a grid of cells, on the cores of this machine or of many; every result is one file."""
