"""What is learned from a chat template by experiment: a bridge for any renderer, and the backend over the template."""
