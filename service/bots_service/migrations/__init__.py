"""The revisions of the SQL schema, inside the package so that an installed service can migrate its database."""
