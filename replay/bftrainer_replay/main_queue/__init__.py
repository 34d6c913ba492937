"""A simulated queue of main jobs, and a pilot that holds the nodes that it leaves idle."""
