"""Completions made of text, on one of tinker's renderers."""

from __future__ import annotations

from functools import cached_property

import shapes

from rllm_renderer_core import BridgeDeclined
from rllm_renderer_core.normal_form.tokenizer import reasoning_ids

FOUR = "four apples"
USER = [shapes.user("And lids?")]
CALLS = {
    "qwen3": '<tool_call>\n{"name": "look", "arguments": {"q": "tea"}}\n</tool_call>',
    "qwen3_5": "<tool_call>\n<function=look>\n<parameter=q>\ntea\n</parameter>\n</function>\n</tool_call>",
    "nemotron3": "<tool_call>\n<function=look>\n<parameter=q>\ntea\n</parameter>\n</function>\n</tool_call>\n",
    "deepseekv3": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{"q": "tea"}<｜tool▁call▁end｜>'
    "<｜tool▁calls▁end｜>",
    "kimi_k26": "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>"
    '{"q": "tea"}<|tool_call_end|><|tool_calls_section_end|>',
    "gpt_oss_medium_reasoning": ' to=functions.look<|channel|>commentary <|constrain|>json<|message|>{"q": "tea"}',
    "glm5_3_max_reasoning": "<tool_call>look<arg_key>q</arg_key><arg_value>tea</arg_value></tool_call>",
    "inkling": '<|end_message|><|message_model|>look<|content_invoke_tool_json|>{"name":"look","args":{"q":"tea"}}'
    "<|end_message|>",
    "deepseekv4_1": '\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="look">\n<｜DSML｜ parameter name="q" string="true">tea'
    "</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>",
}
"""One call as the model writes it, by renderer; written by hand after the formats."""
CALLS["qwen3_instruct"] = CALLS["qwen3"]
OPENS_REASONING = {
    *("qwen3_5", "qwen3_8_xhigh_reasoning", "deepseekv3_thinking", "kimi_k26", "nemotron3"),
    *("glm5_3_max_reasoning", "deepseekv4_1"),
}
"""Renderers whose prompt ends inside reasoning."""


def has_call(case):
    """Whether a call of the renderer's format is written down here."""
    return case.renderer in CALLS


def closes_calls(case):
    """Whether a call has a close of its own; harmony's ends with the message."""
    return has_call(case) and not case.renderer.startswith("gpt_oss")


def opens_reasoning(case):
    """Whether the prompt ends inside reasoning."""
    return case.renderer in OPENS_REASONING


class Turn:
    """P, and completions made of text, on one renderer."""

    def __init__(self, case, resolved, tools=None):
        self.tokenizer = resolved.tokenizer
        self.resolved = resolved
        self.tools = tools
        self.case = case
        self.prompt = resolved.render_ids(shapes.OPENING, tools=tools, add_generation_prompt=True)
        self.stops = resolved.get_stop_token_ids()

    def ids(self, text):
        return shapes.encode(self.tokenizer, text)

    @cached_property
    def start(self):
        """Closes the reasoning that the prompt opened, or opens a message of text where a turn is made of messages."""
        if self.case.renderer.startswith("gpt_oss"):
            return self.ids("<|channel|>final<|message|>")
        if self.case.renderer == "inkling":
            return self.ids("<|content_text|>")
        inside = not self.resolved.parse_response(self.ids(FOUR), prompt_ids=self.prompt).reasoning_complete
        return [reasoning_ids(self.tokenizer)[1]] if inside else []

    @cached_property
    def stop(self):
        """The stop that a user's message goes with."""
        for stop in self.stops:
            if not isinstance(self.bridge([*self.start, *self.ids(FOUR), stop]), BridgeDeclined):
                return stop
        raise AssertionError("no stop bridges")

    def bridge(self, sampled, new=USER, **more):
        return self.resolved.try_bridge(self.prompt, sampled, new, tools=self.tools, **more)

    def delta(self, sampled, new=USER, **more):
        out = self.bridge(sampled, new, **more)
        assert not isinstance(out, BridgeDeclined), out.reason
        size = len(self.prompt) + len(sampled)
        assert out.token_ids[:size] == self.prompt + sampled
        return out.token_ids[size:]
