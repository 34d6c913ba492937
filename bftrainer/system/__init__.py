"""The only users of files, processes and clocks below the live pilot."""
