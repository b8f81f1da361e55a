"""What the use cases need from the outside world, in the domain's words."""
