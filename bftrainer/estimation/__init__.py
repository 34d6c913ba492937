"""From measured rates and stalls to the curves that policies decide on. Pure."""
