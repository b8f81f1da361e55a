-- Returns what is the newest state, and its bytes if the caller's is older. ARGV: a generation and a turn in case that
-- a new generation must begin, epoch and seq of the caller's state.
local now = facts()
if not now.live then
  wipe(now, ARGV[1], ARGV[2])
end
local bytes = false
if now.s >= 0 and is_newer(now.e, now.s, { e = tonumber(ARGV[3]), s = tonumber(ARGV[4]) }) then
  bytes = redis.call('HGET', STATE, 'b')
end
return reply('ok', now, bytes)
