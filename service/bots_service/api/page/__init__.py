"""The service's own page: its files and their HTTP headers. Charts are drawn by plotly's bundle."""
