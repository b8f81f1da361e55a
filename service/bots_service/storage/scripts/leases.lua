-- Returns the time, and tasks and ends of the leases.
local ms = now_ms()
return { text(ms), redis.call('ZRANGEBYSCORE', LEASES, '(' .. text(ms), '(+inf', 'WITHSCORES') }
