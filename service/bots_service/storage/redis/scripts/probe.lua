-- Does a little of what the other scripts do, so that a user without the rights, or a server that can't, is found out.
-- Returns what Redis says of itself. KEYS: one for this alone. ARGV: seconds that the key is kept.
redis.call('SET', KEYS[1], '1', 'EX', ARGV[1])
redis.call('TIME')
return redis.call('INFO')
