"""The service's own page: its files and their HTTP headers."""
