"""What vLLM is asked for, through a stand-in of TRL's ``VLLMGeneration``; the engine itself needs a GPU."""

from __future__ import annotations

import functools
import itertools

import pytest
import real_tokenizers
from tiny_trainer import add, sum_of_two, tiny_model, tiny_trainer

from rllm_renderer_core import resolve

pytestmark = pytest.mark.needs("trl")
MODELS = real_tokenizers.here("Qwen/Qwen3-8B")


class StandIn:
    """Answers with the script, in the shapes of ``VLLMGeneration.generate``."""

    max_model_length = 4096

    def __init__(self, script):
        self.generation_kwargs, self.max_completion_length = {"seed": 7, "stop_token_ids": [5]}, 256
        self.script, self.asked, self.synced = script, [], 0

    def sync_weights(self):
        self.synced += 1

    def generate(self, prompts, images, num_generations, profiler=None):
        assert images is None and num_generations == 1
        turn = self.script[len(self.asked) % len(self.script)]
        self.asked.append((prompts, self.generation_kwargs, self.max_completion_length))
        logprobs = [[None if not at else -0.5] for at in range(len(turn))]  # TRL hands a NaN of the engine on as None
        return prompts, [tuple(turn) for _ in prompts], [logprobs for _ in prompts], None


@functools.cache
def renderer(model):
    return resolve(tokenizer=real_tokenizers.load(model), require_bridge=True)


@pytest.fixture
def made(tmp_path):
    """A trainer that generates with the stand-in, what it made of two prompts, and the stand-in."""
    from rllm_renderer_trl import rollout

    (model,) = MODELS
    rows = []
    func = rollout([add], renderer=renderer(model))
    trainer = tiny_trainer(
        model,
        tmp_path,
        model=tiny_model(renderer(model).tokenizer, hidden_size=8, num_hidden_layers=1),
        trainer={"rollout_func": lambda prompts, trainer: rows.append(func(prompts, trainer)) or dict(rows[-1])},
    )
    trainer.use_vllm, trainer._last_loaded_step, trainer.vllm_importance_sampling_correction = True, -1, False
    trainer.vllm_generation = StandIn(sum_of_two(renderer(model)))
    return trainer, rows, trainer.vllm_generation


def test_vllm_gets_ids_the_formats_stops_and_the_room_that_is_left(made):
    trainer, rows, vllm = made
    trainer._generate_and_score_completions([trainer.train_dataset[at] for at in (0, 0)])
    (first, given, most), (second, _, left) = vllm.asked
    assert vllm.synced == 1 and given["seed"] == 7
    assert given["stop_token_ids"] == sorted({5, *renderer(MODELS[0]).get_stop_token_ids()})
    assert (most, left) == (256, 256 - (len(second[0]) - len(first[0])))
    assert (vllm.generation_kwargs, vllm.max_completion_length) == ({"seed": 7, "stop_token_ids": [5]}, 256), "as it was"
    row = rows[0]
    assert row["prompt_ids"][0] + row["completion_ids"][0] == second[0] + vllm.script[1]


def test_an_id_without_a_logprob_isnt_trained(made):
    trainer, rows, vllm = made
    trainer._generate_and_score_completions([trainer.train_dataset[at] for at in (0, 0)])
    ids = [token for token, kept in zip(rows[0]["completion_ids"][0], rows[0]["env_mask"][0], strict=True) if kept]
    assert ids == vllm.script[0][1:] + vllm.script[1][1:]
    assert {value for value, kept in zip(rows[0]["logprobs"][0], rows[0]["env_mask"][0], strict=True) if kept} == {-0.5}


def test_each_call_has_as_many_prompts_in_every_process(made, monkeypatch):
    """Server mode gathers the prompts of all processes and takes equal shares of what comes back."""
    trainer, rows, vllm = made
    others = itertools.chain([(3, 300), (2, 10), (1, 10)], itertools.repeat((0, 1)))
    monkeypatch.setattr("accelerate.utils.gather_object", lambda mine: [*mine, next(others)])
    trainer.rollout_func([trainer.train_dataset[0]["prompt"]] * 2, trainer)
    assert [len(prompts) for prompts, _, _ in vllm.asked] == [3, 2, 1], "it goes along until the others are done"
    assert vllm.asked[0][2] == 300 and vllm.asked[2][0] == vllm.asked[0][0][:1]
    assert [len(column) for column in rows[0].values()] == [2] * 5


@pytest.mark.needs("vllm")
@pytest.mark.parametrize("model", MODELS)
def test_colocated_vllm_takes_a_step(model, tmp_path):
    from rllm_renderer_trl import rollout

    policy = tiny_model(real_tokenizers.load(model))
    policy.save_pretrained(tmp_path / "model")
    trainer = tiny_trainer(
        model,
        tmp_path,
        model=str(tmp_path / "model"),
        trainer={"rollout_func": rollout([add], renderer=renderer(model))},
        use_cpu=False,
        use_vllm=True,
        vllm_mode="colocate",
    )
    trainer.train()
    assert all(log["rollout/segments"] >= 1 for log in trainer.state.log_history if "loss" in log)
