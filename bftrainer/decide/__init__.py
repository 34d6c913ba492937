"""Who gets how many nodes: values, solvers, policies, estimates and the loop. Pure, and numpy is
all that it needs.

Nothing here reads a clock, a file or a socket. The pilot and a replay drive the same code with
events.
"""
