"""The verifier guard: rewards that turn wrong at once raise an alarm."""
