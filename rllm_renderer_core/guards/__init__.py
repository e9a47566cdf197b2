"""What is checked before and after a backend works: one folder a guard, each with the upstream fault that it catches."""
