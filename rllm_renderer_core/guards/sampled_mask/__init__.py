"""The mask of a render begins where sampling begins, and ends with the stop."""
