"""The page of tokens."""
