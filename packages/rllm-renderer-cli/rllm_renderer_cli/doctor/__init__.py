"""``rllm-renderer doctor``."""
