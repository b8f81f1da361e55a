-- Deletes all that is kept of a run.
redis.call('DEL', RUN, LEASES)
