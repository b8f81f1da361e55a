-- Begins a new generation, for the run's dataset changed, or somebody could not publish: all must ask SQL. What is known
-- of the run stays. ARGV: a generation, and a turn and an ordinal in case that nothing of the run can be trusted.
local now = facts()
if now.live then
  -- Of the one before, so that this script, run again late, does not bring an old generation back.
  now.g = string.sub(redis.sha1hex(now.g .. ARGV[1]), 1, 16)
  redis.call('HSET', STATE, 'g', now.g)
else
  wipe(now, ARGV[1], ARGV[2], ARGV[3])
end
return reply('ok', now, false)
