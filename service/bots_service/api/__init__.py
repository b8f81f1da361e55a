"""The service over HTTP: thin handlers over the use cases."""
