"""What the learned parser is made of: ids as text, literals, the ways to write calls, the experiments and their proofs."""
