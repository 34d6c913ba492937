"""Analysis of a log: its idle nodes, the causes of idleness, and the policies and settings that
suit it.
"""
