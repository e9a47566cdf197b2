"""A bridge isn't begun inside reasoning or inside a tool call."""
