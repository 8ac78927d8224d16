"""How strangers' code runs: confined processes, the wire to them, and what the trusted side may believe."""
