"""The selector in trainers: a file each, which imports its trainer. Nothing else of the client imports these."""
