"""Driver ``torchrun``."""
