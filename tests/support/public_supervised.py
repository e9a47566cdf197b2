"""Training sequences on a public chat template, against the template's own text: no format known, nothing learned.

For an assistant message the prompt is the text of the messages before it, with the opener; what is sampled is how the text of
the conversation that ends with the message goes on from there, up to the stop.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import public_turns
import shapes
from rllm_renderer_training import supervised
from rllm_renderer_training.sequences.supervised import runs_of
from supervised_oracle import CONVERSATIONS

from rllm_renderer_core import RendererError

Messages = list[dict[str, Any]]
FORMS = [
    public_turns.Form(empty, as_text, parts)
    for parts, as_text, empty in itertools.product((False, True), (False, True), ("", None))
] + [public_turns.Form(blocks=True), public_turns.Form(as_text=True, blocks=True)]


@dataclass
class Verdict:
    """Of one conversation with one history: turns trained and left out, sequences, and what is wrong.

    Attributes:
        needless: Turns that were left out though the text has them behind their prompt.
        refused: Why there are no sequences at all.
    """

    conversation: str
    history: str
    trained: int = 0
    skipped: int = 0
    sequences: int = 0
    wrong: str = ""
    refused: str = ""
    needless: str = ""


class Official:
    """The template's text of one conversation, handed over in one form."""

    def __init__(self, tokenizer: Any, messages: Messages, tools: Any, form: public_turns.Form) -> None:
        self.tokenizer, self.messages, self.form = tokenizer, messages, form
        self._tools = tools
        self.text = functools.cache(self._text)
        self.prompt_ids = functools.cache(lambda index: shapes.encode(tokenizer, self.text(index, True)))

    def _text(self, end: int, opener: bool) -> str:
        """Raises whatever the template raises."""
        formed = [public_turns._formed(message, self.form) for message in self.messages[:end]]
        return str(self.tokenizer.apply_chat_template(formed, tools=self._tools, add_generation_prompt=opener, tokenize=False))

    def said(self, index: int) -> tuple[str | None, str]:
        """What the text of message ``index`` is behind its prompt, or ``None`` and why nobody can say it there."""
        try:
            prompt, finished = self.text(index, True), self.text(index + 1, False)
        except Exception as error:
            return None, f"the template refuses: {type(error).__name__}"
        if not finished.startswith(prompt):
            return None, "the text doesn't go on from the prompt"
        said = finished[len(prompt) :]
        before = self.messages[:index]
        dropped = [each for message in before for each in _words({**message, "reasoning_content": None}) if each not in prompt]
        if dropped:
            return None, f"the prompt leaves out {dropped[0]!r}"
        missing = [each for each in _words(self.messages[index]) if each not in said]
        return (None, f"the template drops {missing[0]!r}") if missing else (said, "")


def _words(message: dict[str, Any]) -> list[str]:
    """Texts that a turn must show."""
    calls = [json.loads(each["function"]["arguments"])["q"] for each in message.get("tool_calls") or ()]
    names = [each["function"]["name"] for each in message.get("tool_calls") or ()]
    return [each for each in (message.get("reasoning_content"), message["content"], *names, *calls) if each]


def verdicts(tokenizer: Any, renderer: Any) -> Iterator[Verdict]:
    """Of the five conversations, each with either history."""
    for name, (messages, declared) in CONVERSATIONS.items():
        reasons = "reasoning_content" in tokenizer.chat_template
        if (declared and "tool" not in tokenizer.chat_template) or (name == "reasoning" and not reasons):
            continue
        if declared:  # words that stand nowhere else
            messages = json.loads(json.dumps(messages).replace(r"\"apples\"", r"\"plums\"").replace(r"\"lids\"", r"\"pears\""))
        if declared and not reasons:
            messages = [{key: value for key, value in each.items() if key != "reasoning_content"} for each in messages]
        messages = _taken(tokenizer, messages, declared)
        tools = shapes.TOOLS if declared else None
        completions: dict[int, list[int]] = {}
        for history in ("template", "verbatim"):
            verdict = Verdict(name, history)
            try:
                got = supervised(renderer, messages, tools=tools, history=history, unreachable="skip")
            except RendererError as error:
                verdict.refused = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                yield verdict
                continue
            found = []
            for form in FORMS:
                official = Official(tokenizer, messages, tools, form)
                try:
                    wrong = _wrong(official, renderer, got, history, completions)
                except Exception as error:  # the template's own, for contents in this form
                    wrong = f"the template refuses what the renderer rendered: {type(error).__name__}"
                if not wrong:
                    break
                found.append(wrong)
            else:
                verdict.wrong = max(found, key=len)
            verdict.trained = sum(len(example.trained) for example in got)
            verdict.skipped, verdict.sequences = len(got.skipped), len(got)
            verdict.needless = "; ".join(_needless(official, renderer, got))
            yield verdict


def _taken(tokenizer: Any, messages: Messages, declared: bool) -> Messages:
    """The conversation without what the template refuses: the system message, long ids of calls."""
    short = json.loads(json.dumps(messages).replace("functions.look:", "callLook").replace("functions.count:", "callCont"))
    for at in ("callLook", "callCont"):
        short = json.loads(json.dumps(short).replace(f'"{at}0"', f'"{at}a"').replace(f'"{at}1"', f'"{at}b"'))
    for each, start in itertools.product((messages, short), (0, 1)):
        for form in FORMS:
            try:
                Official(tokenizer, each[start:], shapes.TOOLS if declared else None, form).text(len(each), False)
            except Exception:
                continue
            return each[start:]
    return messages


def _wrong(official: Official, renderer: Any, got: Any, history: str, completions: dict[int, list[int]]) -> str:
    """What isn't as the text says, or an empty string."""
    spoken = [index for index, message in enumerate(official.messages) if message["role"] == "assistant"]
    if sorted([index for each in got for index in each.trained] + [each.index for each in got.skipped]) != spoken:
        return "a turn is lost, or trained twice"
    before: list[int] | None = None
    for example in got:
        runs = _runs(example.weights)
        if [example.message_indices[start] for start, _ in runs] != example.trained:
            return "the trained ids aren't those of the trained messages"
        if history == "template" and before is not None and official.prompt_ids(example.trained[0])[: len(before)] == before:
            return "two sequences could be one"
        before = example.token_ids
        known = 0
        for (start, end), index in zip(runs, example.trained, strict=True):
            prompt, completion = official.prompt_ids(index), example.token_ids[start:end]
            if (history == "template" or not known) and example.token_ids[:start] != prompt:
                have, wanted = (_tail(official, ids) for ids in (example.token_ids[:start], prompt))
                return f"the prompt of message {index} is {have}, not {wanted}"
            if history == "verbatim" and known:
                wrong = _wrong_between(official, example.token_ids[known:start], index, example.trained)
                if wrong:
                    return wrong
            wrong = _wrong_completion(official, renderer, index, completion)
            if wrong:
                return f"message {index}: {wrong}"
            if completions.setdefault(index, completion) != completion:
                return f"message {index} is another completion by history"
            known = end
    return ""


def _wrong_completion(official: Official, renderer: Any, index: int, completion: Sequence[int]) -> str:
    said, why = official.said(index)
    if said is None:
        return f"trained, though {why}"
    stops = set(renderer.get_stop_token_ids())
    if completion[-1] not in stops or stops & set(completion[:-1]):
        return "not one stop, at its end"
    decode, prompt = official.tokenizer.decode, official.text(index, True)
    text = decode(list(completion))
    if said.startswith(text):
        if said[len(text) :].strip():
            return f"the text goes on behind the stop: {said[len(text) :]!r}"
    elif decode(list(completion[:-1])) == said:  # the format writes no stop behind its last turn
        completion = completion[:-1]
    else:
        return f"{text!r}, not {said!r}"
    head, whole = official.prompt_ids(index), shapes.encode(official.tokenizer, prompt + decode(list(completion)))
    # Where the opener merges with the first words, the model goes on from the prompt's own ids.
    ids = whole[len(head) :] if whole[: len(head)] == head else shapes.encode(official.tokenizer, decode(list(completion)))
    return "" if ids == list(completion) else f"other ids of {text!r}"


def _wrong_between(official: Official, added: list[int], index: int, trained: Sequence[int]) -> str:
    """What a bridge put between two turns: the end of the rendered prompt, with all that is new and nothing that is old."""
    if not added or official.prompt_ids(index)[-len(added) :] != added:
        return f"what is bridged to message {index} isn't the end of its prompt: {_tail(official, added)}"
    text = official.tokenizer.decode(added)
    spoken = max(at for at in range(index) if official.messages[at]["role"] == "assistant")
    new = [message["content"] for message in official.messages[spoken + 1 : index]]
    if any(content not in text for content in new):
        return f"the bridge to message {index} leaves out one of {new}"
    old = official.messages[spoken]["content"]
    return f"the bridge to message {index} has the turn before it" if old and old in text else ""


def _needless(official: Official, renderer: Any, got: Any) -> Iterator[str]:
    """Turns left out that the text has, with one stop, behind their prompt."""
    stops = renderer.get_stop_token_ids()
    for each in got.skipped:
        said, _ = official.said(each.index)
        if said is None:
            continue
        ids = shapes.encode(official.tokenizer, said)
        count = sum(token in stops for token in ids)
        written = (
            count == 1 and not official.tokenizer.decode(ids[next(i for i, t in enumerate(ids) if t in stops) + 1 :]).strip()
        )
        calls = bool(official.messages[each.index].get("tool_calls"))
        if written or (count == 0 and runs_of(renderer).targets.unwritten_stop(calls) is not None):
            yield each.reason


def _runs(weights: Sequence[float]) -> list[tuple[int, int]]:
    edges = [at for at in range(len(weights) + 1) if bool(weights[at : at + 1] and weights[at]) != bool(at and weights[at - 1])]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _tail(official: Official, ids: Sequence[int]) -> str:
    return repr(official.tokenizer.decode(list(ids)[-40:]))
