-- Deletes the state. ARGV: the next generation with its first revision and ordinal; seconds that an idle run is kept;
-- the generation whose state to delete ('' for any).
local run = read_header()
if ARGV[5] == '' or run.generation == ARGV[5] then
  begin_generation(run, ARGV[1], ARGV[2], ARGV[3], ARGV[4])
end
return reply('ok', run, false)
