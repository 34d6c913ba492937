"""The pilot, one process per user: it watches nodes and trainers, asks for decisions and carries
them out.
"""
