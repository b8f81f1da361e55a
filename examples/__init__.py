"""What users copy: whole programs that run."""
