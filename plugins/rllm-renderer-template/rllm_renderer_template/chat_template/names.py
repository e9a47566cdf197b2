"""Names that several modules here share."""

TEMPLATE_BACKEND = "chat-template"
"""What ``resolve(backend=...)`` takes for the tokenizer's own chat template."""
