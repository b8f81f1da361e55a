"""The service's own page: its files, and what browsers are told about them. Charts are drawn by plotly's bundle."""
