"""The trainers of a live pilot: their drivers, and the next step of each."""
