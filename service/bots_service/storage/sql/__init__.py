"""The stores in SQL, whatever the product."""
