-- Notes that the run is new, so none of its leases were lost, even if a replica asked for it before. ARGV: a generation
-- and its first revision, in case that one must begin; an ordinal, which is not used; seconds that an idle run is kept.
local run = read_header()
if not run.valid then
  begin_generation(run, ARGV[1], ARGV[2], 0, ARGV[4])
end
run.lost_ms = 0
redis.call('HSET', HEADER, 'lost_ms', 0)
next_revision(run)
return reply('ok', run, false)
