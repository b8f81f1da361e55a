"""What keeps a training job going while the service is away: giving up in time, not asking, choosing, keeping."""
