-- Leases the tasks of a selection, all or none, and keeps it under its key. KEYS: 3 the selection. ARGS: 1 a nonce of
-- this selection; 2, 3 epoch and seq of the state that it was drawn from; 4 how long the leases last, in ms; 5 how long
-- the selection is kept, in ms; 6 seconds that an idle run is kept; 7 its tasks that must not be leased yet; 8 its other
-- tasks. BYTES are the selection's.
-- Returns "leased", "moved" (the run has moved on, or a task was leased meanwhile), or the bytes of the selection that
-- was made under the key meanwhile. Run again after a lost answer, it finds its nonce and leases once.
local NONCE, EPOCH, SEQ, LEASE_MS, KEPT_MS, TTL_S, tasks, others = unpack(ARGS)

local kept = redis.call('HMGET', KEYS[3], 'nonce', 'epoch', 'bytes')
if kept[1] == NONCE then
  return { 'leased' }
elseif kept[1] and tonumber(kept[2]) == EPOCH then
  return { 'previous', kept[3] }
end
local run, ms = header(), now_ms()
-- Without a set the leases were evicted since the look, and a new one would hide that from the next look.
if not run or run.epoch ~= EPOCH or run.seq ~= SEQ or redis.call('EXISTS', LEASES) == 0 then
  return { 'moved' }
end
redis.call('ZREMRANGEBYSCORE', LEASES, '-inf', text(ms))
for first = 1, #tasks, CHUNK do
  local ends = redis.call('ZMSCORE', LEASES, unpack(tasks, first, math.min(first + CHUNK - 1, #tasks)))
  for place = 1, #ends do
    if ends[place] then
      return { 'moved' }
    end
  end
end
for _, task in ipairs(others) do
  tasks[#tasks + 1] = task
end
local until_ms = text(ms + LEASE_MS)
for first = 1, #tasks, CHUNK do
  local leased = {}
  for place = first, math.min(first + CHUNK - 1, #tasks) do
    leased[#leased + 1] = until_ms
    leased[#leased + 1] = tasks[place]
  end
  redis.call('ZADD', LEASES, unpack(leased))
end
redis.call('HSET', KEYS[3], 'nonce', NONCE, 'epoch', EPOCH, 'bytes', BYTES)
redis.call('PEXPIRE', KEYS[3], KEPT_MS)
redis.call('EXPIRE', RUN, TTL_S)
redis.call('EXPIRE', LEASES, TTL_S)
return { 'leased' }
