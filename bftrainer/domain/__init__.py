"""The values that the core works on, and the interfaces it needs: frozen types and Protocols, no behavior."""
