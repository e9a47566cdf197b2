"""``rollout_func`` of TRL's ``GRPOTrainer``: prompts to episodes, token by token."""

import itertools
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from rllm_renderer_training import Rollout, RolloutError

from rllm_renderer_core import ResolvedRenderer, resolve

from .episode import Episode
from .generation import generate
from .tools import methods_of, run


def rollout(
    tools: Sequence[Callable[..., Any]] = (),
    *,
    max_turns: int = 8,
    environment_factory: Callable[[], Any] | None = None,
    renderer: ResolvedRenderer | None = None,
) -> Callable[[list[Any], Any], dict[str, Any]]:
    """What to pass as ``GRPOTrainer(rollout_func=...)``: episodes with tools, in which no sampled id is tokenized again. One is
    one row: its last segment. Reward functions also get ``rollouts``, the whole episodes, and ``environments``.

    Args:
        tools: As for ``GRPOTrainer(tools=...)``, which stays empty: functions with type hints and a docstring, sync or async.
        max_turns: The most completions in an episode; ``max_completion_length`` is the most ids in a row, results included.
        environment_factory: Makes the environment of an episode. ``reset(prompt=...)`` is called before each, and its text
            joins the last message; other public methods but ``get_reward`` are tools.
        renderer: What ``resolve`` returned; by default it is resolved from the trainer's tokenizer at the first batch.
    """
    resolved, environments, logged = renderer, list[Any](), set[str]()

    def rollout_func(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        nonlocal resolved
        _refuse(trainer, prompts)
        if resolved is None:
            tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
            asked = {"chat_template_kwargs": trainer.chat_template_kwargs} if trainer.chat_template_kwargs else {}
            resolved = resolve(tokenizer=tokenizer, require_bridge=True, **asked)
        while environment_factory and len(environments) < len(prompts):
            environments.append(environment_factory())
        episodes = _begun(resolved, prompts, list(tools), environments or [None] * len(prompts))
        _sample(trainer, episodes, resolved.get_stop_token_ids(), max_turns)
        counts = [episode.metrics() for episode in episodes]
        logged.update(*counts)  # what was seen once is 0 from then on, so that a mean is one over all episodes
        for name, count in itertools.product(sorted(logged), counts):
            trainer._log_metric(name, float(count.get(name, 0)))  # noqa: SLF001 what reward functions get as log_metric
        rows = map(list, zip(*(episode.row() for episode in episodes), strict=True))
        more = {"environments": environments[: len(prompts)]} if environment_factory else {}
        columns = zip(("prompt_ids", "completion_ids", "logprobs", "env_mask"), rows, strict=True)
        return {**dict(columns), "rollouts": [episode.rollout for episode in episodes], **more}

    return rollout_func


def _refuse(trainer: Any, prompts: list[Any]) -> None:
    """Raise for what would train something else than it says."""
    tested = ("1.15.", "1.16.")
    untested = f"trl {version('trl')} isn't a tested version ({tested[0]}x to {tested[-1]}x)"
    for name in ("_log_metric", "eos_token_ids", "chat_template_kwargs"):
        if not hasattr(trainer, name):
            raise RolloutError(f"{untested}: its trainer has no {name}")
    if not version("trl").startswith(tested):
        warnings.warn(untested, stacklevel=2)
    if trainer.tools:
        raise RolloutError("GRPOTrainer has tools too, whose loop would train results", fix="pass them to rollout(tools=[...])")
    if getattr(trainer, "use_transformers_continuous_batching", False) or (trainer.is_fsdp_enabled and not trainer.use_vllm):
        raise RolloutError("continuous batching, and generation under FSDP, aren't served", fix="set use_vllm=True")
    if any(isinstance(prompt, str) for prompt in prompts):
        raise RolloutError("a prompt is text", fix="make the prompts of the data set lists of messages")


def _begun(renderer: ResolvedRenderer, prompts: list[Any], tools: list[Any], environments: list[Any]) -> list[Episode]:
    from transformers.utils.chat_template_utils import get_json_schema

    episodes = []
    for messages, environment in zip(prompts, environments, strict=False):
        own = tools if environment is None else tools + methods_of(environment)
        if environment is not None and (seen := environment.reset(prompt=messages)) is not None:
            messages = [*messages[:-1], {**messages[-1], "content": messages[-1]["content"] + seen}]
        rollout = Rollout(renderer)
        prompt = rollout.begin(messages, tools=[get_json_schema(tool) for tool in own] or None)
        episodes.append(Episode(rollout, {tool.__name__: tool for tool in own}, prompt))
    return episodes


def _sample(trainer: Any, episodes: list[Episode], stop_ids: list[int], max_turns: int) -> None:
    """Turn by turn, all episodes together, until none goes on in any process."""
    trainer.eos_token_ids = [*{*trainer.eos_token_ids, *stop_ids}]  # TRL takes what doesn't end with one of these for cut off
    given = trainer.vllm_generation.max_model_length if trainer.use_vllm else None
    context: Any = given or getattr(trainer.model.config.get_text_config(), "max_position_embeddings", sys.maxsize)
    spare = episodes[0].prompt
    for _ in range(max_turns):
        asked = [episode for episode in episodes if episode.waits(trainer.max_completion_length, context)]
        sampled = generate(trainer, [(episode.prompt, episode.room) for episode in asked], stop_ids, spare)
        calls = [(episode, episode.record(*own, stop_ids)) for episode, own in zip(asked, sampled, strict=True)]
        results = iter(run([(call, episode.tools) for episode, own in calls for call in own]))
        for episode, own in calls:
            if own:
                episode.extend([next(results) for _ in own])
    if not all(episode.parsed for episode in episodes):
        raise RolloutError(f"a prompt leaves no room to sample: prompt and completion have {context} ids at most")
