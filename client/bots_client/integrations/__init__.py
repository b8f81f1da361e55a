"""Integrations with trainers: one file each, which imports its trainer. Nothing else in the client imports them."""
