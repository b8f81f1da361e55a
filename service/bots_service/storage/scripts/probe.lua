-- Does a little of what the other scripts do, so that a user without the rights, or a server that can't, is found out.
-- Returns what Redis says of itself. KEYS: 1 one for this alone. ARGS: 1 seconds that it is kept.
redis.call('SET', RUN, '1', 'EX', ARGS[1])
redis.call('TIME')
return redis.call('INFO')
