-- Leases the tasks of a selection, all or none, and keeps it under its key.
-- ARGV: 1 a nonce of this selection; 2 to 4 the generation, epoch and seq of the state it was drawn from; 5, 6 the
-- ticket's revision and ordinal; 7 is 1 if that ordinal was reserved for this selection; 8 how many of its tasks must
-- not be leased yet; 9 how long the leases last, in ms; 10 how long the selection is kept, in ms; 11 seconds that an
-- idle run is kept; 12 the selection's bytes; from 13 its tasks, those that must not be leased before the others.
-- Status: acquired, again (the first answer was lost), previous, stale, conflict (an ordinal is reserved now), or
-- overlap (the reserved ordinal stays reserved).
local NONCE, REVISION, ORDINAL = ARGV[1], tonumber(ARGV[5]), tonumber(ARGV[6])
local RESERVED, FREE, RUN_TTL_S = ARGV[7] == '1', tonumber(ARGV[8]), ARGV[11]
local FIRST = 13

local run, ms = read_header(), now_ms()
local nonce, bytes = previous(run)
if nonce == NONCE then
  return reply('again', run, false)
elseif bytes then
  return reply('previous', run, bytes)
elseif
  not run.valid
  or run.generation ~= ARGV[2]
  or run.epoch ~= tonumber(ARGV[3])
  or run.seq ~= tonumber(ARGV[4])
then
  return reply('stale', run, false)
end

end_leases(run, ms)
local before = run.revision
if RESERVED then
  -- The first draw used the leases as they were then. This one only needs to share no task with a lease it didn't know.
  local last = FIRST + FREE - 1
  for first = FIRST, last, CHUNK do
    local ends = redis.call('ZMSCORE', LEASES, unpack(ARGV, first, math.min(first + CHUNK - 1, last)))
    for place = 1, #ends do
      if ends[place] then
        return reply('overlap', run, { text(ms), leases() })
      end
    end
  end
else
  local is_as_ticket = run.revision == REVISION and run.ordinal == ORDINAL
  run.ordinal = redis.call('HINCRBY', HEADER, 'ordinal', 1)
  if not is_as_ticket then
    return reply('conflict', run, { text(ms), leases() })
  end
end

local until_ms = text(ms + tonumber(ARGV[9]))
for first = FIRST, #ARGV, CHUNK do
  local pairs = {}
  for place = first, math.min(first + CHUNK - 1, #ARGV) do
    pairs[#pairs + 1] = until_ms
    pairs[#pairs + 1] = ARGV[place]
  end
  redis.call('ZADD', LEASES, unpack(pairs))
end
next_revision(run)
redis.call('EXPIRE', HEADER, RUN_TTL_S)
redis.call('EXPIRE', LEASES, RUN_TTL_S)
redis.call('SET', SELECTION, run.namespace .. NONCE .. ARGV[12], 'PX', ARGV[10])
return reply('acquired', run, text(before))
