-- Returns what selections are drawn with. KEYS: 3 the dataset's version; 4 the selection under the first request's key,
-- if it has one. ARGS: 1 how many selections. Returns epoch, seq (-1 if the header is not valid), the first ordinal,
-- lost_ms, the time, the tasks on lease as text, the dataset's version or false, and epoch and bytes of the selection
-- or false.
local run, ms = header(), now_ms()
local ordinal = 0
if run then
  ordinal = redis.call('HINCRBY', RUN, 'ordinal', ARGS[1]) - ARGS[1]
  if redis.call('EXISTS', LEASES) == 0 then -- evicted
    run.lost_ms = ms
    redis.call('HSET', RUN, 'lost_ms', text(ms))
    redis.call('ZADD', LEASES, '+inf', KEPT)
  end
else
  run = { epoch = -1, seq = -1, lost_ms = 0 }
end
local kept = KEYS[4] and redis.call('HMGET', KEYS[4], 'epoch', 'bytes')
return {
  run.epoch, run.seq, ordinal, text(run.lost_ms), text(ms),
  table.concat(redis.call('ZRANGEBYSCORE', LEASES, '(' .. text(ms), '(+inf'), ' '),
  redis.call('GET', KEYS[3]),
  kept and kept[1] and { tonumber(kept[1]), kept[2] } or false,
}
