-- Ends all leases, and forgets the selections made so far. ARGV: the new token of selections.
local now = facts()
redis.call('DEL', LEASES)
if now.live then
  now.n = 0
  redis.call('HSET', STATE, 'n', 0)
end
redis.call('HSET', STATE, 'f', ARGV[1])
redis.call('EXPIRE', STATE, KEEP_S)
next_turn(now)
return reply('ok', now, false)
