-- Begins a generation and keeps state, leases and ordinals: all processes must read SQL. ARGV: a generation; a revision
-- and an ordinal, in case that the header is not valid; seconds that an idle run is kept.
local run = read_header()
if run.valid then
  -- Derived from the one before, so that this script, run again late, does not bring an old generation back.
  run.generation = string.sub(redis.sha1hex(run.generation .. ARGV[1]), 1, 16)
  redis.call('HSET', HEADER, 'generation', run.generation)
else
  begin_generation(run, ARGV[1], ARGV[2], ARGV[3], ARGV[4])
end
return reply('ok', run, false)
