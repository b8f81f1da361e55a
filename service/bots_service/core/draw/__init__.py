"""Selections: which tasks to hand out next."""
