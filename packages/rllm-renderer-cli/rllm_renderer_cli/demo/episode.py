"""The demo's episode: four scripted turns, sampled as models sample, and what rendering again makes of them.

The script is written as messages. Each completion is put into the model's own format by the renderer and then bent as sampling
bends it, so that it means the same in other ids. Nothing here knows a format, so any tokenizer and renderer can play it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rllm_renderer_training.rollout.rollout import Rollout
from rllm_renderer_training.sequences.supervised import supervised

from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.types import ParsedResponse

Ids = list[int]
Habit = Callable[[Any, Ids], Iterator[Ids]]
"""Completions that models sample instead of the canonical one, given the tokenizer and its ids."""


def _tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


TOOLS = [
    _tool("search_flights", "Find flights.", origin="string", destination="string", nonstop="boolean"),
    _tool("forecast", "Weather in a city.", city="string", day="string"),
    _tool("hold_seat", "Hold a seat without paying.", flight="string"),
]
OPENING = [
    {"role": "system", "content": "You plan short trips. Be brief."},
    {"role": "user", "content": "Is there a nonstop flight from Oslo to Lisbon on Friday, and will I need a raincoat?"},
]


def _capital(tokenizer: Any, ids: Ids) -> Iterator[Ids]:
    """A boolean written as in Python."""
    for at, token in enumerate(ids):
        if tokenizer.decode([token]) == "true":
            yield [*ids[:at], *tokenizer.encode("True", add_special_tokens=False), *ids[at + 1 :]]


def _split(tokenizer: Any, ids: Ids) -> Iterator[Ids]:
    """A word sampled in two pieces of which the tokenizer would make one: the same text, which encoding again changes."""
    for at, token in enumerate(ids):
        text = tokenizer.decode([token])
        if not (text.strip().isalpha() and len(text) > 5):
            continue
        for cut in range(3, len(text) - 2):
            pieces = [tokenizer.encode(part, add_special_tokens=False) for part in (text[:cut], text[cut:])]
            if all(len(piece) == 1 for piece in pieces):
                yield [*ids[:at], *pieces[0], *pieces[1], *ids[at + 1 :]]


@dataclass(frozen=True)
class Script:
    """One turn: what the model means, how its sampled ids differ from the canonical ones, and what comes back."""

    reasoning: str
    content: str = ""
    calls: tuple[dict[str, Any], ...] = ()
    habit: Habit | None = None
    results: tuple[str, ...] = ()
    user: str = ""


SCRIPT = (
    Script(
        "Flights and weather don't depend on each other: two calls at once.",
        calls=(
            _call("search_flights", origin="Oslo", destination="Lisbon", nonstop=True),
            _call("forecast", city="Lisbon", day="Friday"),
        ),
        habit=_capital,
        results=('[{"flight": "TP 763", "departs": "13:05", "eur": 214}]', '{"rain": 0.8, "high": 16}'),
    ),
    Script(
        "Only one nonstop flight. Hold a seat before answering.",
        calls=(_call("hold_seat", flight="TP 763"),),
        habit=_split,
        results=('{"held_until": "18:00"}',),
    ),
    Script(
        "The seat is held. Rain is likely.",
        "TP 763 leaves at 13:05 for 214 euros; a seat is held until 18:00. Take the raincoat.",
        user="Good. Where can I stay dry on Saturday?",
    ),
    Script("Indoors, a short list.", "In the Oceanarium, and in the tile museum after lunch."),
)


@dataclass
class Turn:
    """One turn of the rollout beside the same turn rendered again."""

    new: list[dict[str, Any]]  # the messages that led to it
    previous: int  # how many ids the engine already had: the previous prompt and completion
    prompt: Ids  # of the rollout
    declined: str | None  # why it isn't a bridge, if it isn't
    had: Ids  # what a loop which renders again had before this turn
    rendered: Ids  # the whole conversation rendered again
    completion: Ids  # what was sampled
    parsed: ParsedResponse  # what it means

    @property
    def kept(self) -> int:
        """How many of the ids that were there survive rendering again: the index of the first id that differs."""
        return common_prefix(self.had, self.rendered)

    @property
    def breaks(self) -> bool:
        """Whether rendering again starts a new training segment."""
        return self.kept < len(self.had)


@dataclass
class Episode:
    """A played episode."""

    turns: list[Turn]
    rollout: Rollout

    def segments_rendered(self) -> list[int]:
        """Lengths of the training segments of a loop that renders again at each turn."""
        lengths: list[int] = []
        for turn in self.turns:
            if turn.breaks or not lengths:
                lengths.append(0)
            lengths[-1] = len(turn.rendered) + len(turn.completion)
        return lengths


def play(renderer: Any, tokenizer: Any) -> Episode:
    """Play the script with a rollout, and beside it with a loop that renders the whole conversation again at each turn.

    Raises:
        RendererError: The renderer's format can't be scripted: a turn can't be sampled behind its prompt.
    """
    rollout = Rollout(renderer)
    prompt = rollout.begin(OPENING, tools=TOOLS)
    turns: list[Turn] = []
    new = OPENING
    had: Ids = []
    for script in SCRIPT:
        rendered = renderer.render_ids(rollout.messages, tools=TOOLS, add_generation_prompt=True)
        previous = len(turns[-1].prompt) + len(turns[-1].completion) if turns else 0
        declined = next((decline.reason for decline in rollout.declines if decline.turn == len(turns)), None)
        meant = _canonical(renderer, rollout.messages, script)
        completion = _sampled(renderer, tokenizer, prompt, meant, script.habit)
        parsed = rollout.record(completion)
        turns.append(Turn(new, previous, prompt, declined, had, rendered, completion, parsed))
        had = rendered + completion
        new = _answers(script, parsed)
        if new:
            prompt = rollout.extend(new)
    return Episode(turns, rollout)


def _answers(script: Script, parsed: ParsedResponse) -> list[dict[str, Any]]:
    """What the environment says to a turn."""
    answers: list[dict[str, Any]] = [{"role": "tool", "content": content} for content in script.results]
    for answer, call in zip(answers, parsed.tool_calls, strict=False):
        answer["tool_call_id"] = call.id
    return [*answers, {"role": "user", "content": script.user}] if script.user else answers


def _canonical(renderer: Any, messages: Sequence[dict[str, Any]], script: Script) -> Ids:
    """The completion as the renderer itself would write it behind these messages, with its stop."""
    meant: dict[str, Any] = {"role": "assistant", "content": script.content, "reasoning_content": script.reasoning}
    meant |= {"tool_calls": list(script.calls)} if script.calls else {}
    example = supervised(renderer, [*messages, meant], tools=TOOLS, train="last")[-1]
    return [token for token, weight in zip(example.token_ids, example.weights, strict=True) if weight]


def _sampled(renderer: Any, tokenizer: Any, prompt: Ids, ids: Ids, habit: Habit | None) -> Ids:
    """The same completion with a habit of models: other ids, and the renderer still reads the same in them."""

    def meaning(completion: Ids) -> Any:
        parsed = renderer.parse_response(completion, tools=TOOLS, prompt_ids=prompt)
        calls = [(call.name, call.arguments, call.status) for call in parsed.tool_calls]
        return parsed.content, parsed.reasoning_content, calls, parsed.termination

    others = habit(tokenizer, ids) if habit is not None else ()
    return next((other for other in others if meaning(other) == meaning(ids)), ids)
