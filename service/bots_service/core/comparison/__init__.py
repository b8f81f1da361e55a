"""Comparing beliefs: a run's journal, folded again under others, and what each would have predicted."""
