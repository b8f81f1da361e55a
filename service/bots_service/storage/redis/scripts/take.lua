-- Leases the tasks of a selection, all or none, and remembers it under its key. ARGV: a nonce of this selection; the
-- generation, epoch and seq of the state it was drawn from; the turn and the ordinal it began with; 1 if that ordinal
-- was reserved for it; how many of its tasks must be on no lease; how long the leases last, in ms; how long the selection
-- is remembered, in ms; its bytes; its tasks, those that must be on no lease before the others.
local NONCE, TURN, ORDINAL = ARGV[1], tonumber(ARGV[5]), tonumber(ARGV[6])
local RESERVED, FREE = ARGV[7] == '1', tonumber(ARGV[8])
local FIRST = 12

local now, ms = facts(), now_ms()
local nonce, bytes = remembered(now)
if nonce == NONCE then
  return reply('again', now, false) -- the caller asks a second time, for the first answer was lost
elseif bytes then
  return reply('previous', now, bytes)
elseif not now.live or now.g ~= ARGV[2] or now.e ~= tonumber(ARGV[3]) or now.s ~= tonumber(ARGV[4]) then
  return reply('stale', now, false)
end

end_leases(now, ms)
local before = now.t
if RESERVED then
  -- Drawn before from leases that were true then; it need only share no task with another, save what it knew of.
  local last = FIRST + FREE - 1
  for first = FIRST, last, CHUNK do
    local ends = redis.call('ZMSCORE', LEASES, unpack(ARGV, first, math.min(first + CHUNK - 1, last)))
    for place = 1, #ends do
      if ends[place] then
        return reply('kept', now, { text(ms), leases() })
      end
    end
  end
else
  local fits = now.t == TURN and now.n == ORDINAL
  now.n = redis.call('HINCRBY', STATE, 'n', 1)
  if not fits then
    return reply('reserved', now, { text(ms), leases() })
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
next_turn(now)
redis.call('EXPIRE', STATE, KEEP_S)
redis.call('EXPIRE', LEASES, KEEP_S)
redis.call('SET', SELECTION, now.f .. NONCE .. ARGV[11], 'PX', ARGV[10])
return reply('taken', now, text(before))
