"""From measured rates and stalls to the estimated curves on which policies decide. Pure."""
