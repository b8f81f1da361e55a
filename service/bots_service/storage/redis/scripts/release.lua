-- Ends the leases of tasks. ARGV: the tasks.
local run = read_header()
end_leases(run, now_ms())
local before = run.revision
local ended = 0
for first = 1, #ARGV, CHUNK do
  ended = ended + redis.call('ZREM', LEASES, unpack(ARGV, first, math.min(first + CHUNK - 1, #ARGV)))
end
if ended > 0 then
  next_revision(run)
end
return reply('ok', run, text(before))
