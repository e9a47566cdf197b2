"""Fixtures of canitoolcall that don't pass, and why. None has an OK call that its fixture doesn't expect."""

from __future__ import annotations

_BROKEN = "a call without one of its marks: not OK, where the suite wants what it may have meant"
_BARE = "a call without its opening control token stays content"
_V11 = "the v11 form with a call id, where upstream knows the v13 form: not OK"

FAILURES = {
    "mistral/llamacpp-v11-call-id": _V11,
    "mistral/llamacpp-v11-call-id-parallel": _V11,
    "kimi/k2i-vllm-id-without-functions-prefix": "an id that isn't of the format's form: not OK",
    "kimi/k2i-vllm-noise-between-markers": "words between the format's control tokens, which no part of the parse could keep",
    "deepseek/sglang-v4-self-closing-invoke": "a call that closes in its own opening tag: not OK",
    "qwen3-xml/llamacpp-coder-bare-function": _BARE,
    "qwen3-xml/llamacpp-coder-bare-function-parallel": _BARE,
    "qwen3-xml/bug-coder-missing-tool-call-opener": _BARE,
    "qwen3-xml/llamacpp-q35-call-inside-think": "a call inside reasoning that never closes: not OK, on no backend",
    "qwen3-xml/vllm-coder-missing-close-parameter": _BROKEN,
    "qwen3-xml/bug-missing-close-parameter-before-function": _BROKEN,
    "glm/glm47-missing-last-close-arg-value": _BROKEN,
}
