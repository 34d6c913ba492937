"""Many replays on the cores of this machine; every result is one file."""
