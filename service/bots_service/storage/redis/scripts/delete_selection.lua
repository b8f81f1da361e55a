-- Deletes a selection whose bytes can't be read. ARGV: the bytes.
local run = read_header()
local _, bytes = previous(run)
if bytes == ARGV[1] then
  redis.call('DEL', SELECTION)
end
return reply('ok', run, false)
