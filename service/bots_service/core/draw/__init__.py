"""Selections: which tasks to train on next."""
