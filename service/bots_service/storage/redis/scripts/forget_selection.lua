-- Forgets a selection whose bytes can't be read. ARGV: the bytes.
local now = facts()
local _, bytes = remembered(now)
if bytes == ARGV[1] then
  redis.call('DEL', SELECTION)
end
return reply('ok', now, false)
