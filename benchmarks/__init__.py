"""How fast the selector is: its kernels beside the published selector, the service over HTTP, its share of a step."""
