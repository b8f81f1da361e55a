"""Numpy in, numpy out: the belief, its one transition, and the draw. No clock, no I/O, no hidden randomness."""
