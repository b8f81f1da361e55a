-- Stands in front of every script. KEYS[1] is a run's header, KEYS[2] its leases.
--
-- Fields of the header:
--   server      run_id of the Redis server that wrote it
--   epoch, seq  of the run's newest state
--   ordinal     of the next selection from that state
--   lost_ms     when the run's leases were found lost, in ms since 1970; 0 if they never were
--   state       bytes of a state, and state_epoch, state_seq: its version
-- The leases are a sorted set of tasks by the end of each, in ms; KEPT never ends, and tells that the set was kept.

local RUN, LEASES = KEYS[1], KEYS[2]
local ARGS, BYTES = cmsgpack.unpack(ARGV[1]), ARGV[2] -- all arguments, in two
-- Longer than 64 bytes: Redis then keeps the set as a skip list from the start, which leases five times as fast.
local KEPT = string.rep('-', 65)
local CHUNK = 1000 -- arguments of one command: Lua's unpack takes no more than about 8000

-- Lua would write large numbers as 1.7e+12.
local function text(number)
  return string.format('%.0f', number)
end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function server_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end

-- A restarted server may have lost its last seconds, and a promoted one may never have had them, so a header that
-- another server wrote counts for nothing.
local function header()
  local found = redis.call('HMGET', RUN, 'server', 'epoch', 'seq', 'lost_ms')
  if not found[1] or found[1] ~= server_id() then
    return nil
  end
  return { epoch = tonumber(found[2]), seq = tonumber(found[3]), lost_ms = tonumber(found[4]) }
end

local function is_newer(epoch, seq, than_epoch, than_seq)
  return epoch > than_epoch or (epoch == than_epoch and seq > than_seq)
end
