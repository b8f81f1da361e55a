-- Returns the leases, and the selection that was remembered under the key. ARGV: 1 to reserve the next ordinal.
local now, ms = facts(), now_ms()
end_leases(now, ms)
local _, bytes = remembered(now)
if ARGV[1] == '1' and now.live and not bytes then
  now.n = redis.call('HINCRBY', STATE, 'n', 1)
end
return reply('ok', now, { text(ms), leases(), bytes or false })
