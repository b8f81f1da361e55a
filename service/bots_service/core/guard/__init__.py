"""The verifier guard: rewards that turn wrong at once raise an alarm, and may be held out of the belief."""
