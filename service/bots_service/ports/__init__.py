"""The ports: protocols of the stores that use cases need, and the values that they exchange."""
