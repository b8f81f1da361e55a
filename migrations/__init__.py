"""The revisions of the SQL schema. A wheel carries this folder as `bots_service/migrations`."""
