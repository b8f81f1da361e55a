"""The formats in which tasks come: JSON, NDJSON, Parquet."""
