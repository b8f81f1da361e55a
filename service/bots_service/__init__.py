"""BOTS selector: which tasks should a reinforcement-finetuning job train on next."""

__version__ = "0.1.0"
