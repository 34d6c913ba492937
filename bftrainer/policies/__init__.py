"""One file per published allocator: (state, memory, event) -> (decision, memory)."""
