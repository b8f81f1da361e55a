"""Keeps runs live: opens datasets and runs, folds journals, publishes and stores states."""
