"""Driver ``restart``."""
