"""What survives a crash of the pilot: the database with registry and journal, and the spool of
requests.
"""
