"""Everything that survives a crash: the database with registry and journal, and the spool of
requests.
"""
