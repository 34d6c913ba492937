"""The conformance suite that every policy must pass, for authors of policies."""
