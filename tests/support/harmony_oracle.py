"""gpt-oss's reference: the conversation renderer of ``openai_harmony``, which serves the model."""

from __future__ import annotations

import datetime
import functools
import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import openai_harmony as oh
from rllm_renderer_prime import harmony


@functools.cache
def loaded() -> Any:
    """Harmony's encoding; where it has no vocabulary file, see ``vocabulary_from``."""
    return oh.load_harmony_encoding(oh.HarmonyEncodingName.HARMONY_GPT_OSS)


def vocabulary_from(tokenizer: Any) -> None:
    """Have harmony read its vocabulary from a file made of this tokenizer, so that it can be asked offline."""
    ranks = harmony.ranks_of(tokenizer)
    assert ranks is not None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="harmony-"))
    (folder / harmony.FILE).write_bytes(ranks)
    os.environ[harmony.FOLDER_VARIABLE] = str(folder)
    loaded()


def render(messages: Sequence[Any], tools: Any, *, opener: bool) -> list[int]:
    """Harmony's ids of a conversation: a preamble of today, instructions and tools in a developer's message. What ends in an
    assistant's turn is rendered as for training, with the stop that the model samples."""
    written = [*_preamble(messages, tools), *(part for one in messages[_instructed(messages) :] for part in _parts(one))]
    conversation = oh.Conversation.from_messages(written)
    if opener:
        return list(loaded().render_conversation_for_completion(conversation, oh.Role.ASSISTANT))
    return list(loaded().render_conversation_for_training(conversation))


def _instructed(messages: Sequence[Any]) -> bool:
    return bool(messages[0]["role"] == "system")


def _preamble(messages: Sequence[Any], tools: Any) -> list[Any]:
    today = datetime.date.today().isoformat()
    system = oh.SystemContent.new().with_reasoning_effort(oh.ReasoningEffort.MEDIUM).with_conversation_start_date(today)
    written = [oh.Message.from_role_and_content(oh.Role.SYSTEM, system)]
    developer = oh.DeveloperContent.new()
    if _instructed(messages):
        developer = developer.with_instructions(messages[0]["content"])
    if tools:
        declared = [tool["function"] for tool in tools]
        developer = developer.with_function_tools(
            [oh.ToolDescription.new(one["name"], one["description"], parameters=one["parameters"]) for one in declared]
        )
    return (
        [*written, oh.Message.from_role_and_content(oh.Role.DEVELOPER, developer)]
        if tools or _instructed(messages)
        else written
    )


def _parts(message: Any) -> list[Any]:
    """A message as harmony has it: reasoning, text and each call apart, later instructions a developer's message."""
    if message["role"] == "user":
        return [oh.Message.from_role_and_content(oh.Role.USER, message["content"])]
    if message["role"] == "system":
        developer = oh.DeveloperContent.new().with_instructions(message["content"])
        return [oh.Message.from_role_and_content(oh.Role.DEVELOPER, developer)]
    if message["role"] == "tool":
        author = {"role": "tool", "name": f"functions.{message['name']}"}
        result = oh.Message.from_author_and_content(author, message["content"])
        return [result.with_recipient("assistant").with_channel("commentary")]
    parts, calls = [], message.get("tool_calls", ())
    if message.get("reasoning_content"):
        parts.append(oh.Message.from_role_and_content(oh.Role.ASSISTANT, message["reasoning_content"]).with_channel("analysis"))
    if message["content"] or not calls:
        parts.append(oh.Message.from_role_and_content(oh.Role.ASSISTANT, message["content"]).with_channel("final"))
    for call in calls:
        asked = oh.Message.from_role_and_content(oh.Role.ASSISTANT, call["function"]["arguments"])
        parts.append(asked.with_channel("commentary").with_recipient(f"functions.{call['function']['name']}"))
    return parts
