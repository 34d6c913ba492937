"""Configuration and trainer files: TOML in, validated frozen models out."""
