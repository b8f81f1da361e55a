"""The main job on real input: a recorded training run, replayed through the service."""
