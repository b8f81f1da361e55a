"""What a list of runs says of each: how it goes, its gain over uniform sampling, its status and its verdict."""
