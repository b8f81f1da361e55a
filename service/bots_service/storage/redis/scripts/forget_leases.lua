-- Ends all leases, and forgets the selections made so far. ARGV: the new token of selections.
local now = facts()
redis.call('DEL', LEASES)
redis.call('HSET', STATE, 'f', ARGV[1])
redis.call('EXPIRE', STATE, KEEP_S)
next_turn(now)
return reply('ok', now, false)
