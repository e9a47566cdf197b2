"""Where upstream's render differs from the official template, and what is changed before upstream sees the messages."""
