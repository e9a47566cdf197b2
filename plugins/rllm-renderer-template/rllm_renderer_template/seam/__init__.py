"""``SeamBridge``: the boundary between turns, learned from renders."""
