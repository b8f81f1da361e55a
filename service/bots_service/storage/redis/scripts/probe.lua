-- Does a little of what the other scripts do, so that whoever may not, or can't, is told; returns what Redis says of
-- itself. KEYS[1]: a key for this alone.
redis.call('SET', KEYS[1], '1', 'EX', 60)
redis.call('TIME')
return redis.call('INFO')
