"""What the adapter must know of each upstream family. Everything else is upstream's business."""

from __future__ import annotations

from dataclasses import dataclass, field

ALL_ROLES: frozenset[str] = frozenset()
TURNS = frozenset({"system", "user", "assistant", "tool"})
DEVELOPER = TURNS | {"developer"}


@dataclass(frozen=True)
class Family:
    """Facts of one family.

    Attributes:
        roles: Roles that are rendered; upstream drops others without a word. Empty means that the format prints any role.
        identity: What the format shows of a tool result besides its content: ``"name"``, ``"id"`` or nothing.
        ordered: Whether results are put in the order of their calls, which a bridge can do only where the calls are known.
        no_system_in_bridge: Why a system or developer message among the new ones can't be bridged, or empty.
        one_call: Whether a turn has one call at most, so that one result follows it.
        tag_stops: Whether a turn is closed by the next turn's role tag, which the model may have sampled.
        calls_end_reasoning: Whether upstream ends the reasoning at a call inside it, also where its close follows.
        text_arguments: Whether arguments are written as bare text, so that their types come from the tool's declaration.
        needs_user: Whether the template refuses a conversation without a user's message.
        escapes_tools: Whether upstream writes letters beyond ASCII as JSON escapes in declarations, which the template doesn't.
        reasons: Whether the format has reasoning; without it no completion can end inside.
    """

    roles: frozenset[str] = TURNS
    identity: str = ""
    ordered: bool = False
    no_system_in_bridge: str = ""
    one_call: bool = False
    tag_stops: bool = False
    calls_end_reasoning: bool = False
    text_arguments: bool = False
    needs_user: bool = False
    escapes_tools: bool = False
    reasons: bool = True


_FIRST_ONLY = "the chat template allows a system message only at the beginning"
_HOISTED = "the chat template moves every system message to the beginning of the conversation"
_DROPPED = "the chat template drops a system message that isn't the first one"

_QWEN35 = Family(text_arguments=True, no_system_in_bridge=_FIRST_ONLY, needs_user=True)
_GLM = Family(text_arguments=True, tag_stops=True, calls_end_reasoning=True)
_NEMOTRON = Family(text_arguments=True, escapes_tools=True)
_LAGUNA = Family(text_arguments=True)

FAMILIES: dict[str, Family] = {
    "qwen3": Family(),
    "qwen3-vl": Family(no_system_in_bridge=_DROPPED),
    "prime-qwen3": Family(roles=ALL_ROLES, text_arguments=True),
    "qwen3.5": _QWEN35,
    "qwen3.6": _QWEN35,
    "qwen3.8": _QWEN35,
    "glm-4.5": _GLM,
    "glm-5": _GLM,
    "glm-5.1": _GLM,
    "glm-5.3": Family(text_arguments=True, tag_stops=True, calls_end_reasoning=True, ordered=True),
    "minimax-m2": Family(text_arguments=True, no_system_in_bridge=_DROPPED),
    "nemotron-3": _NEMOTRON,
    "nemotron-3-ultra": _NEMOTRON,
    "nemotron-3.5": _NEMOTRON,
    "laguna-xs.2": _LAGUNA,
    "laguna-m.1": _LAGUNA,
    "laguna-xs-2.1": _LAGUNA,
    "laguna-s-2.1": _LAGUNA,
    "hy3": Family(text_arguments=True, no_system_in_bridge=_HOISTED),
    "llama-3": Family(one_call=True, reasons=False),
    "deepseek-v3": Family(reasons=False, no_system_in_bridge=_HOISTED),
    "deepseek-r1": Family(no_system_in_bridge=_HOISTED),
    "deepseek-v4": Family(roles=DEVELOPER | {"latest_reminder"}, ordered=True, calls_end_reasoning=True),
    "kimi-k2": Family(roles=ALL_ROLES, identity="id"),
    "kimi-k2.5": Family(roles=ALL_ROLES, identity="id"),
    "gpt-oss": Family(roles=DEVELOPER, identity="name"),
    "gemma4": Family(roles=DEVELOPER, identity="name"),
    "inkling": Family(identity="name"),
}


def family_of(name: str) -> Family:
    """The facts of a family; a family that a later upstream adds is taken as one without peculiarities."""
    return FAMILIES.get(name, _PLAIN)


_PLAIN = Family()


@dataclass(frozen=True)
class Variant:
    """Which member of a family is rendered: what the corrections depend on.

    Attributes:
        family: Upstream's name of the family.
        model: The model's name where upstream lists it under this family, else empty.
        template: Source of the tokenizer's chat template, or empty.
        opener: What that template, without options, opens a turn with, for models that aren't listed.
        thinking: Whether the next turn thinks, ``None`` where the family has no such switch.
        fields: The typed config's template fields, with their values.
    """

    family: str
    model: str = ""
    template: str = ""
    opener: str = ""
    thinking: bool | None = None
    fields: dict[str, object] = field(default_factory=dict)

    @property
    def unthinking_qwen3(self) -> bool:
        """Qwen3-*-Instruct-2507, whose template has no reasoning at all, though upstream serves it as Qwen3."""
        if self.family != "qwen3":
            return False
        return self.model.endswith("-Instruct-2507") if self.model else bool(self.template) and "<think>" not in self.template

    @property
    def opens_thinking(self) -> bool:
        """Qwen3-*-Thinking-2507, whose template opens the reasoning in the prompt, though upstream serves it as Qwen3."""
        if self.family != "qwen3":
            return False
        if self.model:
            return self.model.endswith("-Thinking-2507")
        return "<think>" in self.opener and "</think>" not in self.opener
