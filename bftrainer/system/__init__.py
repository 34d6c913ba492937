"""Access to files, processes and clocks."""
