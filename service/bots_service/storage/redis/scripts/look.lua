-- Returns what is the newest state, and its bytes if the caller's is older. ARGV: a generation, a turn and an ordinal in
-- case that a new generation must begin, epoch and seq of the caller's state.
local now = facts()
if not now.live then
  wipe(now, ARGV[1], ARGV[2], ARGV[3])
end
local bytes = false
if now.s >= 0 and is_newer(now.e, now.s, { e = tonumber(ARGV[4]), s = tonumber(ARGV[5]) }) then
  bytes = redis.call('HGET', STATE, 'b')
end
return reply('ok', now, bytes)
