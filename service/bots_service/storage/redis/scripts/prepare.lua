-- Returns the leases, and the selection that was kept under the key. ARGV: 1 to reserve the next ordinal.
local run, ms = read_header(), now_ms()
end_leases(run, ms)
local _, bytes = previous(run)
if ARGV[1] == '1' and run.valid and not bytes then
  run.ordinal = redis.call('HINCRBY', HEADER, 'ordinal', 1)
end
return reply('ok', run, { text(ms), leases(), bytes or false })
