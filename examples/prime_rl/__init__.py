"""prime-rl, with tasks that the service chooses."""
