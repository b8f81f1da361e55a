"""What Prometheus may know: each process counts what it does itself, on a registry that is passed in.

Replicas and workers add up; what is the same on all of them is a gauge. No series ever names a task.
"""
