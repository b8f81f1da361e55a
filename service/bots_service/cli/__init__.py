"""The command line: `bots`."""
