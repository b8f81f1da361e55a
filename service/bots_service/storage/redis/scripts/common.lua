-- Stands in front of every script. KEYS[1] is a run's header, KEYS[2] its leases, KEYS[3] one selection under its key.
--
-- Fields of the header:
--   server      run_id of the Redis server that wrote it
--   generation  random id; see bots_service/ports/hot.py
--   epoch, seq  of the newest state; -1 if there is none
--   state       bytes of the newest state
--   revision    of the leases; grows with each change of them
--   ordinal     of the next selection from the newest state
--   namespace   a selection that was kept in another namespace does not count
--   lost_ms     when the run's leases were found lost, in ms since 1970; 0 if they never were

local HEADER, LEASES, SELECTION = KEYS[1], KEYS[2], KEYS[3]
local CHUNK = 1000 -- arguments of one command: Lua's unpack takes no more than about 8000
local FIRST_NAMESPACE = string.rep('0', 16)

-- A restarted server may have lost its last seconds, and a promoted one may never have had them, so a header that
-- another server wrote is not valid.
local function read_header()
  local found = redis.call(
    'HMGET', HEADER, 'server', 'generation', 'epoch', 'seq', 'revision', 'ordinal', 'namespace', 'lost_ms'
  )
  local server = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  return {
    server = server,
    valid = found[1] == server,
    generation = found[1] == server and found[2] or '',
    epoch = tonumber(found[3] or -1),
    seq = tonumber(found[4] or -1),
    revision = tonumber(found[5] or 0),
    ordinal = tonumber(found[6] or 0),
    namespace = found[7] or FIRST_NAMESPACE,
    lost_ms = tonumber(found[8] or 0),
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

-- Begins a generation without a state. Revisions and ordinals begin at random, so that none has two meanings. If the
-- header was not valid, the leases may be lost.
local function begin_generation(run, generation, revision, ordinal, ttl_s)
  if not run.valid then
    run.lost_ms = now_ms()
  end
  redis.call('HDEL', HEADER, 'state')
  redis.call(
    'HSET', HEADER, 'server', run.server, 'generation', generation, 'epoch', -1, 'seq', -1,
    'revision', revision, 'ordinal', ordinal, 'lost_ms', text(run.lost_ms)
  )
  redis.call('EXPIRE', HEADER, ttl_s)
  run.valid, run.generation, run.epoch, run.seq = true, generation, -1, -1
  run.revision, run.ordinal = tonumber(revision), tonumber(ordinal)
end

local function is_newer(epoch, seq, than)
  return epoch > than.epoch or (epoch == than.epoch and seq > than.seq)
end

local function next_revision(run)
  run.revision = run.revision + 1
  if run.valid then
    redis.call('HSET', HEADER, 'revision', text(run.revision))
  end
end

-- Ends the leases whose time is over.
local function end_leases(run, ms)
  if redis.call('ZREMRANGEBYSCORE', LEASES, '-inf', text(ms)) > 0 then
    next_revision(run)
  end
end

local function leases()
  return redis.call('ZRANGE', LEASES, 0, -1, 'WITHSCORES')
end

-- Returns the nonce and the bytes of the selection under the key, if there is one since the run was last cleared.
local function previous(run)
  local found = SELECTION and redis.call('GET', SELECTION)
  if found and string.sub(found, 1, 16) == run.namespace then
    return string.sub(found, 17, 32), string.sub(found, 33)
  end
end

local function reply(status, run, rest)
  return {
    status, run.generation, run.epoch, run.seq, text(run.revision), run.ordinal, text(run.lost_ms), rest
  }
end
