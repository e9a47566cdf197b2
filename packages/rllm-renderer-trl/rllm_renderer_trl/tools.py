"""Tools as TRL takes them: functions with type hints and a docstring, sync or async, and the methods of environments."""

import asyncio
import inspect
from typing import Any

from rllm_renderer_core.types import ToolCall


def methods_of(environment: Any) -> list[Any]:
    """The tools of an environment: its public methods but ``reset`` and ``get_reward``, as in TRL."""
    names = [name for name, _ in inspect.getmembers(type(environment), predicate=inspect.isfunction)]
    return [getattr(environment, name) for name in names if name not in ("reset", "get_reward") and not name.startswith("_")]


def run(jobs: list[tuple[ToolCall, dict[str, Any]]]) -> list[tuple[dict[str, Any], bool]]:
    """A message for each call, and whether it failed. Only calls that parsed are run; those of async tools together."""

    async def finished(answers: list[Any]) -> list[Any]:
        waiting = iter(await asyncio.gather(*filter(inspect.isawaitable, answers), return_exceptions=True))
        return [next(waiting) if inspect.isawaitable(answer) else answer for answer in answers]

    messages = []
    for (call, _), answer in zip(jobs, asyncio.run(finished([_started(*job) for job in jobs])), strict=True):
        content = {"error": str(answer)} if isinstance(answer, Exception) else answer
        message = {"role": "tool", "name": call.name, "content": content if isinstance(content, list) else str(content)}
        messages.append((message | ({} if call.id is None else {"tool_call_id": call.id}), isinstance(answer, Exception)))
    return messages


def _started(call: ToolCall, tools: dict[str, Any]) -> Any:
    if not call.sound or not isinstance(call.arguments, dict):
        return ValueError(f"The call can't be run: {call.status.value}.")
    try:
        return tools[call.name](**call.arguments) if call.name in tools else ValueError(f"Tool {call.name} not found.")
    except Exception as error:
        return error
