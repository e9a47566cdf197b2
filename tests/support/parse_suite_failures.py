"""Fixtures of canitoolcall that don't pass, and why. None has an OK call that its fixture doesn't expect."""

from __future__ import annotations

_BLANKS = "blanks between the format's control tokens that its template never writes: the call is kept, and isn't OK"
_MARKS = "an argument spells the format's own marks, and upstream or the check can't tell it from an end: not OK"
_BROKEN = "a call without one of its marks: not OK, where the suite wants what it may have meant"
_BARE = "a call without its opening control token stays content"
_OTHER = "another form of call than the model's template writes: it stays content"
_FLAGGED = "a call that, written again in the template's form, isn't the sampled text: not OK"
_ANGLE = "the first call is OK and as expected; of the second one, cut off, a '>' is left in the content"

FAILURES = {
    "mistral/llamacpp-v11-call-id": "the v11 form with a call id, where upstream knows the v13 form: not OK",
    "mistral/llamacpp-v11-call-id-parallel": "the v11 form with a call id, where upstream knows the v13 form: not OK",
    "kimi/k2i-vllm-single-call-content-before": _BLANKS,
    "kimi/k2i-vllm-three-tool-calls": _BLANKS,
    "kimi/k2i-vllm-multiline-json": _BLANKS,
    "kimi/k2i-vllm-id-without-functions-prefix": _BLANKS,
    "kimi/k2i-vllm-noise-between-markers": _BLANKS,
    "kimi/k2i-vllm-content-after-tool-section": _BLANKS,
    "kimi/k26-marker-terminator-in-string": _MARKS,
    "kimi/k3-control-marker-text-in-value": _MARKS,
    "deepseek/v3-marker-in-arguments": _MARKS,
    "deepseek/sglang-v4-self-closing-invoke": "a call that closes in its own opening tag: not OK",
    "deepseek/v4-truncated-second-parallel-call": _ANGLE,
    "deepseek/v41-truncated-second-parallel-call": _ANGLE,
    "qwen3-xml/llamacpp-coder-bare-function": _BARE,
    "qwen3-xml/llamacpp-coder-bare-function-parallel": _BARE,
    "qwen3-xml/bug-coder-missing-tool-call-opener": _BARE,
    "qwen3-xml/llamacpp-coder-array-of-objects": _FLAGGED,
    "qwen3-xml/vllm-coder-anyof-coercion": _FLAGGED,
    "qwen3-xml/bug-coder-text-after-call": _FLAGGED,
    "qwen3-xml/coder-parallel-calls": _FLAGGED,
    "qwen3-xml/vllm-coder-missing-close-parameter": _BROKEN,
    "qwen3-xml/bug-missing-close-parameter-before-function": _BROKEN,
    "qwen3-xml/coder-marker-in-arguments": _MARKS,
    "qwen3-xml/q38-marker-in-arguments": _MARKS,
    "qwen3-xml/q38-tool-call-token-in-arguments": _MARKS,
    "qwen3-hermes/marker-in-arguments": _MARKS,
    "glm/glm45-marker-in-arguments": _MARKS,
    "gemma4/marker-in-arguments": _MARKS,
    "gemma4/bug-ollama-18390-key-with-spaces": "a key with blanks, which the template never writes: not OK",
    "gemma4/sglang-nested-array-with-spaces": "blanks inside an array, which the template never writes: not OK",
    "llama/l3-vllm-arguments-key": _OTHER,
    "llama/l3-sglang-python-tag-call": _OTHER,
    "llama/l3-sglang-text-before-python-tag": _OTHER,
    "llama/l3-bug-whole-call-single-delta": _OTHER,
    "llama/l3-meta-python-tag-type-function": _OTHER,
    "gpt-oss/llamacpp-builtin-python-recipient": "a call to the built-in python tool, whose body isn't JSON: it stays content",
}
