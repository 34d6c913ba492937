"""For those who write policies: the conformance suite, which any policy must pass."""
