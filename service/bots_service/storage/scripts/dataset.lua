-- Keeps the version of a dataset, unless a later one is kept. KEYS: 1 for it alone. ARGS: 1 the version; 2 seconds.
if tonumber(redis.call('GET', RUN) or 0) < ARGS[1] then
  redis.call('SET', RUN, ARGS[1], 'EX', ARGS[2])
end
