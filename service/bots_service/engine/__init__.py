"""Keeps runs live: opens them, folds their journals, publishes and stores their states."""
