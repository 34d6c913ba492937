"""Driver ``pool``: workers that do not talk to each other."""
