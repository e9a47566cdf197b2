"""Where a renderer differs from the model's chat template on purpose: probes or their tags, and why."""

from __future__ import annotations

from collections.abc import Mapping

_HARMONY = (
    "the reference is harmony, which serves: no quotation marks on results, <|constrain|> in calls, reasoning before calls"
)
_NO_TOOLS = "the template ignores declared tools, which would drop them: refused"

DEVIATIONS: Mapping[str, Mapping[str, str]] = {
    "GptOss": {"calls": _HARMONY, "results": _HARMONY},
    "DeepSeekV3": {"tools": _NO_TOOLS},
    "DeepSeekR1": {"tools": _NO_TOOLS},
    "DeepSeekV31": {"tools": _NO_TOOLS},
}
