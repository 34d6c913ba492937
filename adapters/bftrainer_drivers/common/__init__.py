"""Shared by all drivers: worker processes, their logs, the event writer
(docs/trainer-directory.md).
"""
