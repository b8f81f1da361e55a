-- Makes a state the newest, unless a newer one is. Refuses a state of an older generation: it may miss entries that were
-- published and lost since. ARGV: the state's generation, epoch, seq and bytes; seconds that an idle run is kept.
local run = read_header()
if not run.valid or run.generation ~= ARGV[1] then
  return reply('outdated', run, false)
end
local epoch, seq = tonumber(ARGV[2]), tonumber(ARGV[3])
if is_newer(epoch, seq, run) then
  -- Selections that Redis lost may have been made from the first state of a generation: its ordinals continue at random.
  local ordinal = run.epoch < 0 and run.ordinal or 0
  redis.call('HSET', HEADER, 'epoch', ARGV[2], 'seq', ARGV[3], 'state', ARGV[4], 'ordinal', ordinal)
  run.epoch, run.seq, run.ordinal = epoch, seq, ordinal
end
redis.call('EXPIRE', HEADER, ARGV[5])
return reply('ok', run, false)
