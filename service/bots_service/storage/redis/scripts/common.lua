-- Stands before every script. KEYS[1] is the run's state, KEYS[2] its leases, KEYS[3] one selection under its key.
--
-- The fields of the state: r the run_id of the server that wrote it, g the generation, e and s epoch and seq, b the
-- state's bytes, t the turn of the leases, n the ordinal of the next selection from this state, f the token without
-- which a remembered selection counts for nothing, l when the run's leases were found lost, in ms, 0 if they never were.

local STATE, LEASES, SELECTION = KEYS[1], KEYS[2], KEYS[3]
local KEEP_S = 30 * 86400 -- a run that nobody used for so long, or that was deleted, leaves nothing behind
local CHUNK = 1000 -- arguments of one command: Lua's unpack takes no more than about 8000
local NO_TOKEN = string.rep('0', 16)

-- A server that restarted may have lost its last seconds, and a promoted one may never have had them: what another
-- server wrote is as good as gone.
local function facts()
  local found = redis.call('HMGET', STATE, 'r', 'g', 'e', 's', 't', 'n', 'f', 'l')
  local server = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  return {
    server = server,
    live = found[1] == server,
    g = found[1] == server and found[2] or '',
    e = tonumber(found[3] or -1),
    s = tonumber(found[4] or -1),
    t = tonumber(found[5] or 0),
    n = tonumber(found[6] or 0),
    f = found[7] or NO_TOKEN,
    l = tonumber(found[8] or 0),
  }
end

-- Lua would write large numbers as 1.7e+12.
local function text(number)
  return string.format('%.0f', number)
end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Begins a new generation, in which no state is known. Turns and ordinals begin at random, so that none means two
-- things. Where nothing of the run can be trusted, its leases may be lost.
local function wipe(now, generation, turn, ordinal)
  if not now.live then
    now.l = now_ms()
  end
  redis.call('HDEL', STATE, 'b')
  redis.call('HSET', STATE, 'r', now.server, 'g', generation, 'e', -1, 's', -1, 't', turn, 'n', ordinal, 'l', text(now.l))
  redis.call('EXPIRE', STATE, KEEP_S)
  now.live, now.g, now.e, now.s, now.t, now.n = true, generation, -1, -1, tonumber(turn), tonumber(ordinal)
end

local function is_newer(e, s, than)
  return e > than.e or (e == than.e and s > than.s)
end

local function next_turn(now)
  now.t = now.t + 1
  if now.live then
    redis.call('HSET', STATE, 't', text(now.t))
  end
end

-- Ends the leases whose time is over; says whether there were any.
local function end_leases(now, ms)
  local ended = redis.call('ZREMRANGEBYSCORE', LEASES, '-inf', text(ms)) > 0
  if ended then
    next_turn(now)
  end
  return ended
end

local function leases()
  return redis.call('ZRANGE', LEASES, 0, -1, 'WITHSCORES')
end

-- Returns the nonce and the bytes of the selection under the key, if there is one since the run was last forgotten.
local function remembered(now)
  local found = SELECTION and redis.call('GET', SELECTION)
  if found and string.sub(found, 1, 16) == now.f then
    return string.sub(found, 17, 32), string.sub(found, 33)
  end
end

local function reply(status, now, rest)
  return { status, now.g, now.e, now.s, text(now.t), now.n, text(now.l), rest }
end
