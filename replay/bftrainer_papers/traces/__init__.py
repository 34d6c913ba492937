"""Trainers from what others measured: when deep-learning jobs came, and how fast their models ran
on how many GPUs.
"""
