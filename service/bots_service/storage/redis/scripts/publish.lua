-- Makes a state the newest, unless a newer one is; refuses one from before the store was wiped, for what was published
-- and lost since then may be missing in it. ARGV: the generation it belongs to, its epoch, seq and bytes.
local now = facts()
if not now.live or now.g ~= ARGV[1] then
  return reply('outdated', now, false)
end
local e, s = tonumber(ARGV[2]), tonumber(ARGV[3])
if is_newer(e, s, now) then
  -- From the first state of a generation selections may have been made before, that Redis forgot.
  local n = now.e < 0 and now.n or 0
  redis.call('HSET', STATE, 'e', ARGV[2], 's', ARGV[3], 'b', ARGV[4], 'n', n)
  now.e, now.s, now.n = e, s, n
end
redis.call('EXPIRE', STATE, KEEP_S)
return reply('ok', now, false)
