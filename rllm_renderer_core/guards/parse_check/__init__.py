"""A parsed completion accounts for every sampled id, and an OK call is what was sampled."""
