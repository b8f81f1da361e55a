-- Tells where a run stands, and ends leases. ARGV: 1, 2 epoch and seq of the newest state; 3 the first ordinal, in case
-- that there is no valid header, 0 of a run that begins: it has lost nothing; 4 seconds that an idle run is kept; 5 to 7
-- epoch, seq and bytes of a state to keep, '' for none; 8 the tasks whose leases end.
local epoch, seq, TTL_S = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[4]
local run = header()
if not run then
  -- Leases were lost with the header, and selections may have been made from this state before.
  local lost_ms = ARGV[3] == '0' and 0 or now_ms()
  redis.call('DEL', RUN)
  redis.call(
    'HSET', RUN, 'server', server_id(), 'epoch', epoch, 'seq', seq, 'ordinal', ARGV[3], 'lost_ms', text(lost_ms)
  )
  redis.call('ZADD', LEASES, '+inf', -1)
elseif is_newer(epoch, seq, run.epoch, run.seq) then
  redis.call('HSET', RUN, 'epoch', epoch, 'seq', seq, 'ordinal', 0)
end
if ARGV[7] ~= '' then
  local kept = redis.call('HMGET', RUN, 'state_epoch', 'state_seq')
  if is_newer(tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(kept[1] or -1), tonumber(kept[2] or -1)) then
    redis.call('HSET', RUN, 'state_epoch', ARGV[5], 'state_seq', ARGV[6], 'state', ARGV[7])
  end
end
local done = cmsgpack.unpack(ARGV[8])
for first = 1, #done, CHUNK do
  redis.call('ZREM', LEASES, unpack(done, first, math.min(first + CHUNK - 1, #done)))
end
redis.call('EXPIRE', RUN, TTL_S)
redis.call('EXPIRE', LEASES, TTL_S)
