"""What a log offers, what waited meanwhile, and which policy or setting suits it."""
