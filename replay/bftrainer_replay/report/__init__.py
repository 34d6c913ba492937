"""The report on one log: what lies idle, what it would train, which settings to take. One page, and its data."""
