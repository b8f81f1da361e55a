-- Ends all leases of a run. ARGV: 1 to delete all that is kept of it.
redis.call('DEL', LEASES)
if ARGV[1] == '1' then
  redis.call('DEL', RUN)
else
  redis.call('ZADD', LEASES, '+inf', -1)
end
