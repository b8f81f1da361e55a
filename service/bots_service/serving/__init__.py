"""Runs the application until a signal ends it: in this process, or in several that share one socket."""
