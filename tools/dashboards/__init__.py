"""Grafana's dashboards, written as what they show; their JSON is made from it, for panels repeat."""
