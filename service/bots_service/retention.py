"""How long the service keeps what it keeps. Every lifetime is defined here and nowhere else.

The stores, the Lua scripts and the use cases take their values from this module; to change a lifetime, change it here.
A run's journal is kept until the run is deleted. Timeouts and capacities of caches are no lifetimes; they stand where
they are used.
"""

MINUTE_S = 60.0
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S

# In SQL.
ANSWERS_S = 7 * DAY_S  # answers by idempotency key; no client repeats a request for longer
STAGES_S = DAY_S  # uploads that were not finished; one that takes longer has died with its process
NEWEST_SNAPSHOTS = 4  # of a run: snapshots that thinning never drops
DELETE_EVERY_S = HOUR_S  # each replica deletes what is due about so often

# In the live store.
LEASE_S = HOUR_S  # leases of a run that sets no `lease_seconds`
LONGEST_LEASE_S = 7 * DAY_S
SELECTIONS_S = 15 * MINUTE_S  # selections by idempotency key; a retry comes within seconds
NONCES_S = MINUTE_S  # selections without a key, by nonce; a script is run again at once or not at all
IDLE_RUNS_S = 30 * DAY_S  # what Redis holds of a run that nobody uses or that was deleted
PROBES_S = MINUTE_S  # the key that a probe writes to Redis

# Elsewhere.
LONGEST_KEY_S = 100 * 366 * DAY_S  # API keys
IDLE_SERIES_S = HOUR_S  # a run's metrics, once another run needs their place
DOCS_CACHED_S = DAY_S  # the documentation page's assets in a browser
