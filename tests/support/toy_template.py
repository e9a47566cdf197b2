"""The toy's format as a chat template, and plugins whose renderers give it or nearly: for tests of parity and detection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toy import ToyRenderer, ToyTokenizer, decode


class TemplateTokenizer(ToyTokenizer):
    """A tokenizer whose chat template is the toy's format; counts its renders.

    Args:
        refuses: Called with the messages; text is what the template raises.
        template: Its source, which only tells one tokenizer from another.
    """

    name_or_path = "nobody/knows"

    def __init__(self, refuses: Callable[[Sequence[Any]], str | None] | None = None, template: str = "toy") -> None:
        self.chat_template = template
        self.refuses = refuses
        self.renders = 0

    def apply_chat_template(
        self,
        messages: Sequence[Any],
        *,
        tools: Any = None,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        return_dict: bool = False,
    ) -> Any:
        self.renders += 1
        why = self.refuses and self.refuses(messages)
        if why:
            raise ValueError(why)
        for message in messages:
            for call in message.get("tool_calls") or ():
                if not isinstance(call["function"]["arguments"], str):
                    raise TypeError("arguments must be text")
        ids = ToyRenderer().render_ids(messages, tools=tools, add_generation_prompt=add_generation_prompt)
        return ids if tokenize else decode(ids)

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return decode(ids)


PLUGIN = '''
from rllm_renderer_core import Backend, BridgeDeclined, Coverage, Match, RenderedTokens, hookimpl
import toy

class Right(toy.ToyRenderer):
    pass

class Trims(toy.ToyRenderer):
    """Differs on the probes with white space at the edges."""
    def body(self, message):
        return super().body({**message, "content": message["content"].strip()})

class NoSystemLater(toy.ToyRenderer):
    """Refuses a system message in the middle."""
    def render(self, messages, **more):
        if any(m["role"] == "system" for m in messages[1:]):
            raise ValueError("the system message must come first")
        return super().render(messages, **more)

class NoTools(toy.ToyRenderer):
    """Refuses tools, which isn't a matter of the order of roles."""
    def render(self, messages, *, tools=None, **more):
        if tools:
            raise ValueError("tools aren't supported")
        return super().render(messages, tools=tools, **more)

class WrongBridge(toy.ToyRenderer):
    """Renders as the template, and bridges results without the newline behind the close."""
    def bridge_to_next_turn(self, p, c, new, **more):
        out = super().bridge_to_next_turn(p, c, new, **more)
        if new[0]["role"] != "tool" or out is None:
            return out
        size = len(p) + len(c)
        return RenderedTokens(out.token_ids[:size] + out.token_ids[size + 1:])

class NeverBridges(toy.ToyRenderer):
    def bridge_to_next_turn(self, p, c, new, **more):
        raise BridgeDeclined("never")

class Broken(toy.ToyRenderer):
    def __init__(self, tokenizer):
        raise RuntimeError("no vocabulary")

KINDS = {"right": Right, "trims": Trims, "no-system-later": NoSystemLater, "no-tools": NoTools,
         "wrong-bridge": WrongBridge, "never-bridges": NeverBridges, "broken": Broken}

class ToyBackend(Backend):
    name = @NAME@
    priority = @PRIORITY@
    options = frozenset(@OPTIONS@)

    def covers(self, query):
        if query.renderer is not None:
            found = query.renderer if query.renderer in KINDS else None
            return found and Coverage(found, Match.NAMED, True, "named by the user")
        listed = @LISTED@.get(query.model)
        return listed and Coverage(listed, Match.EXACT, True, "listed")

    def create(self, query, coverage):
        return KINDS[coverage.renderer](query.tokenizer)

    def renderer_names(self):
        return list(KINDS)

    def candidates(self, query):
        return [Coverage(name, Match.PARITY, True, "tried") for name in @CANDIDATES@]

    def deviations(self, coverage):
        return @DEVIATIONS@

@hookimpl
def rllm_renderer_backends():
    return [ToyBackend()]
'''


def plugin_source(
    *candidates: str,
    name: str = "toy",
    priority: int = 60,
    listed: dict[str, str] | None = None,
    deviations: dict[str, str] | None = None,
    options: Sequence[str] = (),
) -> str:
    """The source of a plugin with one backend.

    Args:
        candidates: What it offers for detection, in order.
        name: The backend's name.
        priority: The backend's priority.
        listed: Models to their renderers.
        deviations: What it declares as deliberate.
        options: What it can honour.
    """
    values = {
        "NAME": repr(name),
        "PRIORITY": str(priority),
        "OPTIONS": repr(tuple(options)),
        "LISTED": repr(listed or {}),
        "CANDIDATES": repr(candidates),
        "DEVIATIONS": repr(deviations or {}),
    }
    source = PLUGIN
    for key, value in values.items():
        source = source.replace(f"@{key}@", value)
    return source
