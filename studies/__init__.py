"""Studies on public data: which settings, references and methods choose better tasks, reproduced by `make study`."""
