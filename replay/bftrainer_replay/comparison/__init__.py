"""Policies and settings compared on one log: the ranking, and the settings to recommend."""
