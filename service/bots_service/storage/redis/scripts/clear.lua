-- Ends all leases, and forgets the selections kept so far. ARGV: the new namespace of selections; seconds that an idle
-- run is kept.
local run = read_header()
redis.call('DEL', LEASES)
redis.call('HSET', HEADER, 'namespace', ARGV[1])
redis.call('EXPIRE', HEADER, ARGV[2])
next_revision(run)
return reply('ok', run, false)
