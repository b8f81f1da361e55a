"""Every call of the service as data. `python -m tools.client_methods` writes the methods of both clients from it."""
