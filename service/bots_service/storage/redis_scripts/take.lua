-- Leases the tasks of a selection, all or none, and remembers it under its key. ARGV: a nonce of this selection; epoch
-- and seq of the state it was drawn from; the turn and the ordinal it began with; the generation in which the ordinal
-- was reserved for it, '' if it was not; 1 to lease tasks that are on lease; how long the leases last, in ms; how long
-- the selection is remembered, in ms; its bytes; its tasks.
local NONCE, TURN, ORDINAL, RESERVED, REUSE = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7] == '1'
local FIRST = 11

local now, ms = facts(), now_ms()
local nonce, bytes = remembered(now)
if nonce == NONCE then
  return reply('again', now, false) -- the caller asks a second time, for the first answer was lost
elseif bytes then
  return reply('previous', now, bytes)
elseif not now.live or now.e ~= tonumber(ARGV[2]) or now.s ~= tonumber(ARGV[3]) then
  return reply('stale', now, false)
end

end_leases(now, ms)
local before = now.t
if RESERVED ~= '' and RESERVED == now.g then
  -- Drawn before from leases that were true then; it need only share no task with another.
  if not REUSE then
    for first = FIRST, #ARGV, CHUNK do
      local ends = redis.call('ZMSCORE', LEASES, unpack(ARGV, first, math.min(first + CHUNK - 1, #ARGV)))
      for place = 1, #ends do
        if ends[place] then
          return reply('kept', now, { text(ms), leases() })
        end
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

local until_ms = text(ms + tonumber(ARGV[8]))
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
redis.call('SET', SELECTION, now.f .. NONCE .. ARGV[10], 'PX', ARGV[9])
return reply('taken', now, text(before))
