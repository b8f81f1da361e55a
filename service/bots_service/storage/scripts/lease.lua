-- Leases the tasks of a selection, all or none, and keeps it under its key. KEYS: 3 the selection. ARGV: 1 a nonce of
-- this selection; 2, 3 epoch and seq of the state that it was drawn from; 4 how many of its tasks must not be leased
-- yet; 5 how long the leases last, in ms; 6 how long the selection is kept, in ms; 7 seconds that an idle run is kept;
-- 8 the selection's bytes; from 9 its tasks, those that must not be leased before the others.
-- Returns "leased", "moved" (the run has moved on, or a task was leased meanwhile), or the bytes of the selection that
-- was made under the key meanwhile. Run again after a lost answer, it finds its nonce and leases once.
local NONCE, EPOCH, SEQ, FREE, UNTIL_S = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[7]
local FIRST = 9

local kept = redis.call('HMGET', KEYS[3], 'nonce', 'epoch', 'bytes')
if kept[1] == NONCE then
  return { 'leased' }
elseif kept[1] and tonumber(kept[2]) == EPOCH then
  return { 'previous', kept[3] }
end
local run, ms = header(), now_ms()
if not run or run.epoch ~= EPOCH or run.seq ~= SEQ then
  return { 'moved' }
end
redis.call('ZREMRANGEBYSCORE', LEASES, '-inf', text(ms))
local last = FIRST + FREE - 1
for first = FIRST, last, CHUNK do
  local ends = redis.call('ZMSCORE', LEASES, unpack(ARGV, first, math.min(first + CHUNK - 1, last)))
  for place = 1, #ends do
    if ends[place] then
      return { 'moved' }
    end
  end
end
local until_ms = text(ms + tonumber(ARGV[5]))
for first = FIRST, #ARGV, CHUNK do
  local pairs = {}
  for place = first, math.min(first + CHUNK - 1, #ARGV) do
    pairs[#pairs + 1] = until_ms
    pairs[#pairs + 1] = ARGV[place]
  end
  redis.call('ZADD', LEASES, unpack(pairs))
end
redis.call('HSET', KEYS[3], 'nonce', NONCE, 'epoch', EPOCH, 'bytes', ARGV[8])
redis.call('PEXPIRE', KEYS[3], ARGV[6])
redis.call('EXPIRE', RUN, UNTIL_S)
redis.call('EXPIRE', LEASES, UNTIL_S)
return { 'leased' }
