-- Forgets the state. ARGV: the next generation with its first turn and ordinal, and the generation to forget ('' for
-- any).
local now = facts()
if ARGV[4] == '' or now.g == ARGV[4] then
  wipe(now, ARGV[1], ARGV[2], ARGV[3])
end
return reply('ok', now, false)
