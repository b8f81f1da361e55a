-- Ends the leases of tasks. ARGV: the tasks.
local now = facts()
end_leases(now, now_ms())
local before = now.t
local ended = 0
for first = 1, #ARGV, CHUNK do
  ended = ended + redis.call('ZREM', LEASES, unpack(ARGV, first, math.min(first + CHUNK - 1, #ARGV)))
end
if ended > 0 then
  next_turn(now)
end
return reply('ok', now, text(before))
