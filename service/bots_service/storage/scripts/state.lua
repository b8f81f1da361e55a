-- Returns the bytes of the state that was kept last, or false.
return header() and redis.call('HGET', RUN, 'state')
