"""What every renderer gets, whatever backend made it: one normal form of messages, results paired with their calls, checks."""
