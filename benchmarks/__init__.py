"""How fast the selector is: its kernels and the published selector, the service over HTTP, its share of a step."""
