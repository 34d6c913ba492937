"""LSF: what it shows, the holder jobs in it, and whether its queues let holders give way (docs/lsf.md)."""
