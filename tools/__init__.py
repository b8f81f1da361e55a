"""Checks of the repository itself; `make check` runs them."""
