"""Which trainers come when, and how fast they run: tables, generators, traces, measured curves."""
