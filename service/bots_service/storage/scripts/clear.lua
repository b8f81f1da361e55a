-- Ends all leases of a run. ARGS: 1 whether to delete all that is kept of it.
redis.call('DEL', LEASES)
if ARGS[1] then
  redis.call('DEL', RUN)
else
  redis.call('ZADD', LEASES, '+inf', KEPT)
end
