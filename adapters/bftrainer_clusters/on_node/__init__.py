"""Programs that run by path with a compute node's own python3 (3.6 or newer).

This folder is their ``sys.path[0]``, so no module here may have the name of one in the standard
library.
"""
