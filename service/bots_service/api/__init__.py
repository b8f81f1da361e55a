"""The HTTP API: thin handlers that call the use cases."""
