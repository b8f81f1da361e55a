-- Tells where a run stands, ends leases, and returns how many are left. ARGS: 1, 2 epoch and seq of the newest state;
-- 3 the first ordinal, in case that there is no valid header, 0 of a run that begins: it has lost nothing; 4 seconds
-- that an idle run is kept; 5, 6 epoch and seq of a state to keep; 7 the tasks whose leases end.
local epoch, seq, ordinal, TTL_S, state_epoch, state_seq, done = unpack(ARGS)
local run = header()
if not run then
  -- Leases were lost with the header, and selections may have been made from this state before.
  local lost_ms = ordinal == 0 and 0 or now_ms()
  redis.call('DEL', RUN)
  redis.call(
    'HSET', RUN, 'server', server_id(), 'epoch', epoch, 'seq', seq, 'ordinal', ordinal, 'lost_ms', text(lost_ms)
  )
  redis.call('ZADD', LEASES, '+inf', KEPT)
elseif is_newer(epoch, seq, run.epoch, run.seq) then
  if epoch > run.epoch then -- a rewind ends all leases
    redis.call('DEL', LEASES)
    redis.call('ZADD', LEASES, '+inf', KEPT)
  end
  redis.call('HSET', RUN, 'epoch', epoch, 'seq', seq, 'ordinal', 0)
end
if BYTES ~= '' then
  local kept = redis.call('HMGET', RUN, 'state_epoch', 'state_seq')
  if is_newer(state_epoch, state_seq, tonumber(kept[1] or -1), tonumber(kept[2] or -1)) then
    redis.call('HSET', RUN, 'state_epoch', state_epoch, 'state_seq', state_seq, 'state', BYTES)
  end
end
for first = 1, #done, CHUNK do
  redis.call('ZREM', LEASES, unpack(done, first, math.min(first + CHUNK - 1, #done)))
end
redis.call('EXPIRE', RUN, TTL_S)
redis.call('EXPIRE', LEASES, TTL_S)
return math.max(redis.call('ZCARD', LEASES) - 1, 0) -- less KEPT
