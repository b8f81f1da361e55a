-- Counts one call of a key, unless it comes too early. Run again after a lost answer it counts the call twice, which
-- makes the limit stricter by one call and does no other harm.
-- KEYS: when the key will have rested fully, in microseconds of this server's clock.
-- ARGV: microseconds that one call takes at this rate; how many calls may come at once.
-- Returns how many microseconds too early the call came, or 0.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local interval = tonumber(ARGV[1])
local rested = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now)
local wait = rested - (tonumber(ARGV[2]) - 1) * interval - now
if wait > 0 then
  return { text(math.ceil(wait)) }
end
rested = rested + interval
redis.call('SET', KEYS[1], text(rested), 'PX', text(math.ceil((rested - now) / 1000)))
return { '0' }
