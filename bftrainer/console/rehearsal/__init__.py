"""A trainer's script against what the pilot will do to it, on this machine: a scenario, its player,
and verdicts.
"""
