"""The hot store in Redis, for all replicas."""
