"""The backend over a tokenizer's own chat template."""
