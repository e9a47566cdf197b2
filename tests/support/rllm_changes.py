"""The changes of docs/rllm.md, applied to a copy of rLLM's sources.

A change replaces what stands from ``start`` to ``end``, both included, in one file; each must be there exactly once.
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass

import rllm_source


@dataclass(frozen=True)
class Change:
    file: str
    start: str
    after: str
    end: str | None = None

    def apply(self, root: pathlib.Path) -> None:
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.start) == 1, f"{self.file}: {text.count(self.start)} of {self.start!r}"
        at = text.index(self.start)
        end = self.end if self.end is not None else self.start
        upto = text.index(end, at) + len(end)
        path.write_text(text[:at] + self.after + text[upto:], encoding="utf-8")


SERVER = "rllm-model-gateway/src/rllm_model_gateway/server.py"
TINKER = "rllm/engine/rollout/tinker_engine.py"
FIREWORKS = "rllm/engine/rollout/fireworks_engine.py"

MAIN = [
    Change(SERVER, "from renderers import create_renderer", "from rllm_renderer_core.rllm import create_renderer"),
    Change(
        TINKER,
        "from rllm.engine.rollout.rollout_engine import ModelOutput",
        "from rllm_renderer_core.rllm import resolve\n\nfrom rllm.engine.rollout.rollout_engine import ModelOutput",
    ),
    Change(TINKER, "bypass_render_with_parser: bool = True,", "bypass_render_with_parser: bool = False,", end="True now"),
    Change(
        TINKER,
        "        if renderer_name is None:\n",
        """\
        self.renderer = None
        if not bypass_render_with_parser:
            self.renderer = resolve(
                model_name,
                tokenizer,
                backend="tinker",
                renderer_name=renderer_name,
                image_processor=image_processor,
                thinking=False if disable_thinking else None,
            ).renderer
""",
        end="image_processor=image_processor)\n",
    ),
    Change(TINKER, "self.renderer.get_stop_sequences()", "self.renderer.stop_sequences"),
    Change(
        TINKER,
        "            assert isinstance(self.renderer, renderers.Renderer)",
        """\
            content, reasoning, calls = self.renderer.parse_completion(response_tokens, token_input)
            tool_calls = [ToolCall(**call) for call in calls]
""",
        end="_parse_tinker_message(response_message)\n",
    ),
    Change(
        TINKER,
        "            # Use Tinker renderer\n",
        "            token_input = self.renderer.token_input(messages, tools)\n",
        end=".chunks  # type: ignore\n",
    ),
    Change(
        FIREWORKS,
        "        router_replay: bool = False,\n",
        """\
        router_replay: bool = False,
        bypass_render_with_parser: bool = False,
        renderer_family: str = "auto",
        renderer_name: str | None = None,
""",
    ),
    Change(
        FIREWORKS,
        "        self.bypass_render_with_parser = True\n",
        """\
        from rllm_renderer_core.rllm import resolve

        self.bypass_render_with_parser = bypass_render_with_parser
        self.renderer = self.chat_parser = None
        if bypass_render_with_parser:
            self.chat_parser = ChatTemplateParser.get_parser(tokenizer, processor=processor, disable_thinking=disable_thinking)
        else:
            self.renderer = resolve(
                None,
                tokenizer,
                backend="fireworks",
                family=renderer_family,
                renderer_name=renderer_name,
                thinking=False if disable_thinking else None,
            ).renderer
""",
        end="            disable_thinking=disable_thinking,\n        )\n",
    ),
    Change(
        FIREWORKS,
        "        prompt = self.chat_parser.parse(\n",
        """\
        if self.renderer is not None:
            token_input = self.renderer.token_input(messages, tools)
        else:
            how = {"reasoning_effort": reasoning_effort, "accumulate_reasoning": accumulate_reasoning}
            prompt = self.chat_parser.parse(messages, add_generation_prompt=True, is_first_msg=True, tools=tools, **how)
            token_input = self.tokenizer.encode(prompt, add_special_tokens=False)
""",
        end="token_input = self.tokenizer.encode(prompt, add_special_tokens=False)\n",
    ),
]
"""For the head of main."""

UNIFIED = [
    Change(SERVER, "from rllm.renderers import resolve", "from rllm_renderer_core.rllm import resolve"),
    Change(
        "rllm/renderers/__init__.py",
        "from .registry import Backend, RendererResolution, describe, get_renderer, resolve",
        "from rllm_renderer_core.rllm import RendererResolution, describe, get_renderer, resolve\n\n"
        "from .registry import Backend",
    ),
]
"""For 955a0c29, where everything but the gateway resolves through ``rllm.renderers``."""

ONE_RENDERER = Change(
    FIREWORKS,
    'res.renderer if (res.source == "tinker" or (explicit and res.source != "chat_template")) else None',
    'res.renderer if res.source != "chat_template" else None',
)
"""For 955a0c29: turn 0 by the renderer that bridges, for prime's models too. One assertion of rLLM's says otherwise."""


PROXY = "rllm-model-gateway/src/rllm_model_gateway/proxy.py"
ACCUMULATOR = "rllm-model-gateway/src/rllm_model_gateway/token_accumulator.py"

ANSWERED = [
    Change(
        PROXY,
        'tools=request_body.get("tools"))',
        """\
tools=request_body.get("tools"),
                            previous_message=next((m for m in messages[acc.message_count :] if m.get("tool_calls")), None),
                        )""",
    ),
    Change(
        ACCUMULATOR,
        "        tools: list[dict[str, Any]] | None = None,\n    ) -> list[int] | None:",
        """\
        tools: list[dict[str, Any]] | None = None,
        previous_message: dict[str, Any] | None = None,
    ) -> list[int] | None:""",
    ),
    Change(
        ACCUMULATOR,
        "            tools=tools,\n        )\n        if rendered is None:",
        """\
            tools=tools,
            **({} if previous_message is None else {"previous_message": previous_message}),
        )
        if rendered is None:""",
    ),
]
"""For both: the turn that results answer, as the client sends it back, reaches the bridge, so that their pairing is certain."""


GATEWAY_TESTS = {
    False: ("test_token_accumulator.py", "test_cumulative_token_mode.py", "test_middleware.py", "test_server.py"),
    True: (
        "test_token_accumulator.py",
        "test_cumulative_token_mode.py",
        "test_cumulative_token_mode_local.py",
        "test_cumulative_tool_call_reconstruction.py",
        "test_middleware.py",
        "test_server.py",
    ),
}
"""rLLM's own tests that apply, by whether the revision has ``rllm/renderers``."""

ENGINE_TESTS = {
    False: ("tests/engine/test_tinker_engine.py",),
    True: ("tests/engine/test_tinker_engine.py", "tests/test_renderers.py", "tests/test_tinker_adapter_cumulative.py"),
}


def changed_copy(target: pathlib.Path, *more: Change) -> pathlib.Path:
    """A copy of ``RLLM_SOURCE`` with the changes for its revision, and ``more``."""
    root = rllm_source.scratch_copy(target)
    for change in [*(UNIFIED if rllm_source.unified(root) else MAIN), *ANSWERED, *more]:
        change.apply(root)
    return root
