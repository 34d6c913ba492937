"""The side of those who submit trainers and look on: one gate, one spool, for the commands and for
Python programs.
"""
