"""Beliefs: how likely the model in training is to solve each task."""
