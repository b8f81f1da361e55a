-- Forgets the state. ARGV: the next generation and its first turn, and the generation to forget ('' for any).
local now = facts()
if ARGV[3] == '' or now.g == ARGV[3] then
  wipe(now, ARGV[1], ARGV[2])
end
return reply('ok', now, false)
