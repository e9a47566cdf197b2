"""From conversations to what a trainer takes."""
