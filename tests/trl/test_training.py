"""GRPO steps on CPU: several turns, a real tool, and what the trainer is given and logs of them."""

from __future__ import annotations

import asyncio
import functools

import pytest
import real_tokenizers
from tiny_trainer import add, scripted, sum_of_two, text, tiny_model, tiny_trainer

from rllm_renderer_core import RendererError, resolve

pytestmark = pytest.mark.needs("trl")
QWEN = "Qwen/Qwen3-8B"


@functools.cache
def renderer():
    return resolve(tokenizer=real_tokenizers.load(QWEN), require_bridge=True)


@pytest.fixture(autouse=True)
def vocabulary():
    if why := real_tokenizers.missing(QWEN):
        pytest.skip(why)


@functools.cache
def policy():
    return tiny_model(renderer().tokenizer)


class Run:
    """A trainer with our ``rollout_func``, its rows and its log: of ``steps``, or of one batch that it makes for a step."""

    def __init__(self, folder, script, tools=(add,), steps=0, trainer=None, max_turns=8, factory=None, using=None, **args):
        from rllm_renderer_trl import rollout

        self.rows, self.rewarded = [], []
        func = rollout(tools, max_turns=max_turns, environment_factory=factory, renderer=using or renderer())

        def keeping(prompts, trainer):
            self.rows.append(func(prompts, trainer))
            return dict(self.rows[-1])

        def reward(**given):
            self.rewarded.append(given)
            return [float(at % 2) for at in range(len(given["completions"]))]

        arguments = {"rollout_func": keeping, "reward_funcs": reward, **(trainer or {})}
        sizes = {"per_device_train_batch_size": 2, "max_steps": steps or 1, "model": policy()}
        self.trainer = tiny_trainer(QWEN, folder, trainer=arguments, **{**sizes, **args})
        with scripted(self.trainer.model, script) as self.sampled:
            if steps:
                self.trainer.train()
                self.logs = [log for log in self.trainer.state.log_history if "loss" in log]
            else:
                self.trainer._generate_and_score_completions([self.trainer.train_dataset[at] for at in (0, 1)])
                self.logs = [{name: sum(each) / len(each) for name, each in self.trainer._metrics["train"].items()}]

    def logged(self, name):
        return [log.get(f"rollout/{name}") for log in self.logs]


def trained(row, at=0):
    return [token for token, kept in zip(row["completion_ids"][at], row["env_mask"][at], strict=True) if kept]


@pytest.mark.needs("trl-steps")
def test_two_steps_with_a_real_tool(tmp_path):
    script = sum_of_two(renderer())
    run = Run(tmp_path, script, steps=2, model=tiny_model(renderer().tokenizer))
    assert len(run.logs) == 2 and all(log["grad_norm"] > 0 for log in run.logs), "weights were trained"
    for row, (first, second) in zip(run.rows, (run.sampled.prompts[:2], run.sampled.prompts[2:]), strict=True):
        for at in range(2):
            assert trained(row, at) == script[0] + script[1], "what was sampled, and nothing else"
            assert row["prompt_ids"][at] == first[at]
            assert (row["prompt_ids"][at] + row["completion_ids"][at]) == second[at] + script[1]
        result = renderer().tokenizer.decode(row["completion_ids"][0][len(script[0]) : -len(script[1])])
        assert result == "\n<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    assert run.logged("segments") == [1.0, 1.0] and run.logged("tool_calls") == [1.0, 1.0]
    assert run.logged("tool_failures") == run.logged("segments_not_trained") == [0.0, 0.0]
    assert [log["completions/clipped_ratio"] for log in run.logs] == [0.0, 0.0]
    assert [len(given["rollouts"]) for given in run.rewarded] == [2, 2]
    messages = run.rewarded[0]["rollouts"][0].messages
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]


def test_ids_that_rendering_again_would_change_are_counted(tmp_path):
    """Spaces that the model wrote into its call are gone when the call is rendered again."""
    call = '<think>\n\n</think>\n\n<tool_call>\n{"name": "add",  "arguments": {"a":1, "b":2}}\n</tool_call><|im_end|>'
    script = text(renderer().tokenizer, call, "<think>\n\n</think>\n\n3<|im_end|>")
    run = Run(tmp_path, script)
    assert run.logged("drift_avoided")[0] > 0 and trained(run.rows[0]) == script[0] + script[1]


def test_a_call_that_doesnt_parse_is_answered_and_counted(tmp_path):
    broken = '<think>\n\n</think>\n\n<tool_call>\n{"name": "add", "arguments": {"a": 1,\n</tool_call><|im_end|>'
    unknown = '<think>\n\n</think>\n\n<tool_call>\n{"name": "sub", "arguments": {}}\n</tool_call><|im_end|>'
    run = Run(tmp_path, text(renderer().tokenizer, broken, unknown, "<think>\n\n</think>\n\nOh.<|im_end|>"))
    failures = {name: value for name, value in run.logs[0].items() if name.startswith("rollout/parse_failures/")}
    assert failures == {"rollout/parse_failures/invalid_json": 1.0, "rollout/parse_failures/unknown_tool": 1.0}, run.logs
    assert run.logged("tool_failures") == [2.0]


def test_more_than_one_segment_the_last_is_trained(tmp_path):
    never = resolve(tokenizer=renderer().tokenizer, backend="chat-template", template_bridge=False)
    script = sum_of_two(renderer())
    run = Run(tmp_path, script, using=never)
    assert run.logged("segments") == [2.0] and run.logged("segments_not_trained") == [1.0]
    reasons = {name: value for name, value in run.logs[0].items() if name.startswith("rollout/declines/")}
    assert list(reasons.values()) == [1.0] and "bridge" in str(reasons)
    row = run.rows[0]
    assert trained(row) == row["completion_ids"][0] == script[1] and row["prompt_ids"][0] == run.sampled.prompts[1][0]


def test_a_turn_that_is_cut_off_ends_the_episode(tmp_path):
    script = sum_of_two(renderer())
    run = Run(tmp_path, script, max_completion_length=5)
    assert trained(run.rows[0]) == script[0][:5] and run.logged("ended/length") == [1.0]
    assert run.logs[0]["completions/clipped_ratio"] == 1.0


def test_results_that_leave_no_room_end_it(tmp_path):
    script = sum_of_two(renderer())
    run = Run(tmp_path, script, max_completion_length=len(script[0]) + 4)
    assert run.rows[0]["completion_ids"][0] == script[0] and run.logged("ended/no_room") == [1.0]


def test_no_more_turns_than_asked(tmp_path):
    script = sum_of_two(renderer())
    run = Run(tmp_path, script, max_turns=1)
    assert len(run.sampled.prompts) == 1 and trained(run.rows[0]) == script[0]


async def add_later(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: One of them.
        b: The other one.
    """
    await asyncio.sleep(0)
    return a + b


def test_async_tools(tmp_path):
    later = add_later
    later.__name__ = "add"
    script = sum_of_two(renderer())
    run = Run(tmp_path, script, tools=(later,))
    assert run.rows[0]["rollouts"][0].messages[2]["content"] == "3" and run.logged("tool_failures") == [0.0]


class Counter:
    """An environment with a state of its own."""

    def reset(self, prompt):
        self.total = 0
        return f" (total {self.total})"

    def add(self, a: int, b: int) -> int:
        """Adds two numbers.

        Args:
            a: One of them.
            b: The other one.
        """
        self.total += a + b
        return self.total

    def get_reward(self):
        return float(self.total)


def test_environments_one_for_each_episode(tmp_path):
    run = Run(tmp_path, sum_of_two(renderer()), tools=(), factory=Counter)
    for given in run.rewarded:
        first, second = given["environments"]
        assert first is not second and (first.get_reward(), second.get_reward()) == (3.0, 3.0), "reset before each"
        assert given["rollouts"][0].messages[0]["content"].endswith(" (total 0)")


# What is refused


def test_tools_of_the_trainer_are_refused(tmp_path):
    pytest.importorskip("jmespath", reason="not proved: TRL takes no tools without jmespath")
    with pytest.raises(RendererError, match="GRPOTrainer has tools too"):
        Run(tmp_path, [[0]], trainer={"tools": [add]})


def test_a_prompt_without_room_is_refused(tmp_path):
    short = tiny_model(renderer().tokenizer, max_position_embeddings=16)
    with pytest.raises(RendererError, match=r"leaves no room to sample.* 16 ids"):
        Run(tmp_path, [[0]], model=short)


def test_a_trl_without_what_is_used_is_said_in_one_line():
    from rllm_renderer_trl import rollout

    class Other:
        pass

    with pytest.raises(
        RendererError, match=r"trl .* isn't a tested version \(1.15.x to 1.16.x\): its trainer has no _log_metric"
    ):
        rollout([add])([[]], Other())
