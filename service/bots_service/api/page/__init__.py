"""The service's own page: its files and their HTTP headers. uPlot draws its charts: `hatch_build.py` fetches it."""
