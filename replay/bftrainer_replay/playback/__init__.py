"""A recorded or generated log played on this host, as a site of the live pilot."""
