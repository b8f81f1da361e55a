"""How much of each server many runs take: a load model, from measured costs of requests. It needs no numpy."""
