-- Notes that the run is new, so nothing of it was lost, whoever looked before. ARGV: the generation to begin with, and
-- its first turn.
local now = facts()
if not now.live then
  wipe(now, ARGV[1], ARGV[2], 0)
end
now.l = 0
redis.call('HSET', STATE, 'l', 0)
next_turn(now)
return reply('ok', now, false)
