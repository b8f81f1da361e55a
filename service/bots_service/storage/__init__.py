"""The ports, kept: SQL is the truth; what lives in memory can be lost."""
