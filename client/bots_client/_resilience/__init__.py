"""What keeps a training job running while the service is away: deadlines, a breaker, local selections, a spool."""
