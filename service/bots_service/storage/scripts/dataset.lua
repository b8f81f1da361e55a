-- Keeps the version of a dataset, unless a later one is kept. KEYS: 1 for it alone. ARGV: 1 the version; 2 seconds.
if tonumber(redis.call('GET', RUN) or 0) < tonumber(ARGV[1]) then
  redis.call('SET', RUN, ARGV[1], 'EX', ARGV[2])
end
