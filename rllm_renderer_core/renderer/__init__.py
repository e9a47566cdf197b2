"""The renderer that ``resolve`` returns, and the record of how it was resolved."""
