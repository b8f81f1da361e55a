-- Returns the leases, and the selection that was remembered under the key.
local now, ms = facts(), now_ms()
end_leases(now, ms)
local _, bytes = remembered(now)
return reply('ok', now, { text(ms), leases(), bytes or false })
