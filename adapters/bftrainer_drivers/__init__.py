"""Drivers: one process per trainer that starts, notifies and ends its workers; one package per
launcher.
"""
