"""Every call of the service, described once; the two clients make methods of them."""
