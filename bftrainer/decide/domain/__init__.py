"""The values that the core works on, and its interfaces: frozen types and Protocols."""
