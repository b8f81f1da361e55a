"""What Prometheus may know: each process counts what it does itself. No series ever names a task."""
