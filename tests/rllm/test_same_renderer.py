"""One renderer for an engine and its gateway, whichever of the two is told its name."""

from __future__ import annotations

import pytest
import real_tokenizers
import rllm_renderer_rllm as rllm
import rllm_source

from rllm_renderer_core.errors import NoBackendError, OptionError

MODEL = "Qwen/Qwen3-8B"


@pytest.fixture(scope="module")
def renderer():
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(why)
    found = rllm.get_renderer(MODEL, real_tokenizers.load(MODEL))
    if found.backend != "prime":
        pytest.skip("prime isn't here")
    return found


@pytest.mark.parametrize(
    "names",
    [{}, {"family": "auto", "renderer_name": None}, {"family": "qwen3"}, {"renderer_name": "qwen3"}, {"family": ""}],
    ids=str,
)
def test_what_names_the_same_renderer_or_none_is_fine(renderer, names):
    rllm.check_same_renderer(renderer, **names)


def test_another_renderer_is_an_error_that_says_both(renderer):
    with pytest.raises(
        OptionError, match=r"'renderer_family': 'glm-5'.* is prime:glm-5, but the engine renders by prime:qwen3\n"
    ):
        rllm.check_same_renderer(renderer, family="glm-5")


def test_a_name_that_nothing_has_is_an_error(renderer):
    with pytest.raises(NoBackendError):
        rllm.check_same_renderer(renderer, renderer_name="nothing_of_the_kind")


SCRIPT = """
import real_tokenizers, rllm_offline
from rllm.gateway.manager import GatewayManager
import rllm_renderer_rllm as rllm

class Config(dict):
    __getattr__ = dict.__getitem__

def manager(gateway, engine):
    gateway = Config(port=18124, host="127.0.0.1", cumulative_token_mode=True, num_workers=1, **gateway)
    return GatewayManager(Config(rllm=Config(gateway=gateway), model=Config(name="m"), rollout_engine=Config(engine)))

named = {"renderer_name": "deepseek_v4", "renderer_family": "glm-5"}
for gateway, engine in ((named, {}), ({}, named), ({"renderer_family": "auto", "renderer_name": None}, named), (named, named)):
    made = manager(gateway, engine)
    assert (made.renderer_name, made.renderer_family) == ("deepseek_v4", "glm-5"), (gateway, engine)
made = manager({}, {})
assert (made.renderer_name, made.renderer_family) == (None, "auto")
try:
    manager({"renderer_family": "qwen3"}, {"renderer_family": "glm-5"})
    raise SystemExit("two names were taken")
except ValueError as error:
    assert "qwen3" in str(error) and "glm-5" in str(error), error

class TinkerEngine:
    renderer = unified_renderer = rllm.get_renderer("Qwen/Qwen3-8B", real_tokenizers.load("Qwen/Qwen3-8B"))

try:
    manager({"renderer_family": "glm-5"}, {}).start(TinkerEngine())
    raise SystemExit("another renderer was taken")
except ValueError as error:
    assert "prime:glm-5" in str(error) and "prime:qwen3" in str(error), error
print("done")
"""


def test_the_patched_manager_takes_the_names_of_either(process, tmp_path):
    pytest.importorskip("fastapi", reason="rLLM's gateway wasn't imported: fastapi isn't installed")
    pytest.importorskip("tinker", reason="rLLM's manager wasn't run: tinker isn't installed")
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(why)
    file = tmp_path / "names.py"
    file.write_text(SCRIPT)
    result = process("-W", "ignore", file)
    assert result.stdout.split()[-1:] == ["done"], result.stderr[-3000:]


BACKEND = """
import sys
from unittest import mock
import rllm_offline, real_tokenizers
from omegaconf import OmegaConf

rllm_offline.stand_in_for_fireworks()
sdk = sys.modules["fireworks.training.sdk"]
sdk.TrainerJobManager = sdk.WeightSyncer = object
for name in ("training", "training.provision", "training.utils", "training.utils.client"):
    sys.modules[name] = mock.MagicMock()
from rllm.trainer.fireworks import fireworks_backend

rollout = {"train": {}, "val": {}}
config = {
    "rllm": {"rollout": rollout, "algorithm": {}, "gateway": {}},
    "data": {"max_prompt_length": 4096, "max_response_length": 4096},
    "training": {"max_length": 8192},
    "rollout_engine": {"renderer_family": "qwen3", "accumulate_reasoning": False, "disable_thinking": False},
}
backend = fireworks_backend.FireworksBackend.__new__(fireworks_backend.FireworksBackend)
backend.full_config = OmegaConf.create(config)
backend.tokenizer, backend.sampling_client = real_tokenizers.load("Qwen/Qwen3-8B"), None
backend._policy_rc = backend.weight_syncer = backend._rlor_mgr = backend._policy_job_id = None
with (
    mock.patch.object(fireworks_backend, "FireworksPolicyTrainer"),
    mock.patch.object(backend, "_init_fireworks_infra"),
    mock.patch.object(backend, "shutdown"),
):
    engine = backend.init_rollout_engine()
renderer = getattr(engine, "unified_renderer", None) or engine.renderer
print(renderer.backend, renderer.name)
"""


def test_fireworks_backend_takes_the_renderer_family_of_its_engine(process, tmp_path):
    """``rollout_engine.renderer_family``, which the error about two names advises."""
    rllm_source.need("Fireworks' backend wasn't built", "tinker", "tinker_cookbook", "omegaconf", "codetiming", "polars")
    if why := real_tokenizers.missing("Qwen/Qwen3-8B"):
        pytest.skip(why)
    file = tmp_path / "backend.py"
    file.write_text(BACKEND)
    result = process("-W", "ignore", file)
    assert result.stdout.split()[-2:] == ["prime", "qwen3"], result.stderr[-3000:]
