"""The commands of users and administrators: short-lived programs that read and write the state
directory.
"""
