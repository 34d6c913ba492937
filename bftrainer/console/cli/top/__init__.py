"""``bftrainer top``: a reader of the state directory, a board without a terminal, and the
screen.
"""
