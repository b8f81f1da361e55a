-- Returns the newest state's version, and its bytes if the caller's state is older. ARGV: a generation with its first
-- revision and ordinal, in case that one must begin; seconds that an idle run is kept; epoch and seq of the caller's
-- state.
local run = read_header()
if not run.valid then
  begin_generation(run, ARGV[1], ARGV[2], ARGV[3], ARGV[4])
end
local bytes = false
if run.seq >= 0 and is_newer(run.epoch, run.seq, { epoch = tonumber(ARGV[5]), seq = tonumber(ARGV[6]) }) then
  bytes = redis.call('HGET', HEADER, 'state')
end
return reply('ok', run, bytes)
