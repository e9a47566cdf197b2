"""Which models tinker covers, by which renderer, and what it refuses."""

import sys

import pytest
import real_tokenizers
from rllm_renderer_tinker import catalog
from rllm_renderer_tinker.backend import TinkerBackend

from rllm_renderer_core import (
    Coverage,
    Match,
    NoBackendError,
    OptionError,
    Query,
    Unavailable,
    explain,
    resolve,
    select_backend,
)


def covers(model, **options):
    return TinkerBackend().covers(Query(model, **options))


@pytest.mark.parametrize("model", sorted(catalog.models()))
def test_every_listed_model_has_upstreams_first_recommendation(model):
    from tinker_cookbook import model_info

    found = covers(model)
    name = model_info.get_recommended_renderer_name(model)
    if isinstance(found, Unavailable):
        assert name == "tml_v0" and "tml-renderers" in found.fix
        return
    assert (found.renderer, found.match) == (name, Match.EXACT)
    assert found.has_bridge is (name != "role_colon")
    assert ("base model" in found.reason) is (name == "role_colon")
    assert name in catalog.builtin_names()


@pytest.mark.parametrize(
    "model",
    ["", "foo", "x/y", "me/Qwen3-8B-sft", "x/not-qwen3-really", "/ckpt/run7/step_40", "Qwen/Qwen3-8B-sft", "qwen/qwen3-8b",
     "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "zai-org/GLM-4.5", "Qwen/", "a/b/c"],
)  # fmt: skip
def test_other_names_are_not_covered(model):
    assert covers(model) is None


def test_upstreams_own_rule_for_a_checkpoint_suffix_is_a_family_match():
    found = covers("Qwen/Qwen3-8B:run7")
    assert (found.renderer, found.match) == ("qwen3", Match.FAMILY)


def test_names_of_renderers_are_read_from_the_installed_version():
    from tinker_cookbook import renderers

    names = catalog.builtin_names()
    assert {"qwen3", "qwen3_5", "kimi_k26", "role_colon", "gpt_oss_no_sysprompt"} <= names
    recommended = {name for model in catalog.models() for name in _recommended(model)}
    assert recommended <= names
    tokenizer = real_tokenizers.load("Qwen/Qwen3-8B")
    with pytest.raises(Exception, match="Unknown renderer"):
        renderers.get_renderer("no_such", tokenizer)


def _recommended(model):
    from tinker_cookbook import model_info

    return model_info.get_recommended_renderer_names(model)


def test_a_renderer_can_be_named_in_both_spellings():
    for spelling in ("renderer", "renderer_name"):
        found = select_backend("/ckpt/run7", backend="tinker", **{spelling: "qwen3_5"})
        assert (found.backend, found.renderer, found.match) == ("tinker", "qwen3_5", "named")
    with pytest.raises(NoBackendError, match="qwen3_5"):
        select_backend("/ckpt/run7", backend="tinker", renderer="qwen99")


THINKING = [
    ("qwen3", True, "qwen3"), ("qwen3", False, "qwen3_disable_thinking"),
    ("qwen3_disable_thinking", False, "qwen3_disable_thinking"), ("qwen3_disable_thinking", True, None),
    ("qwen3_5_preserve_thinking", True, "qwen3_5_preserve_thinking"), ("qwen3_5_preserve_thinking", False, None),
    ("deepseekv3", True, "deepseekv3_thinking"), ("deepseekv3", False, "deepseekv3"),
    ("deepseekv3_thinking", True, "deepseekv3_thinking"), ("deepseekv3_thinking", False, None),
    ("deepseekv3_disable_thinking", False, "deepseekv3_disable_thinking"), ("deepseekv3_disable_thinking", True, None),
    ("kimi_k26", False, "kimi_k26_disable_thinking"), ("nemotron3", False, "nemotron3_disable_thinking"),
    ("nemotron3_low_thinking", True, "nemotron3_low_thinking"), ("nemotron3_low_thinking", False, None),
    ("qwen3_8_xhigh_reasoning", False, "qwen3_8_disable_thinking"), ("qwen3_8_low_reasoning", True, "qwen3_8_low_reasoning"),
    ("deepseekv4_1", False, "deepseekv4_1_disable_thinking"),
    ("qwen3_instruct", True, None), ("qwen3_instruct", False, None), ("llama3", False, None),
    ("gpt_oss_medium_reasoning", False, None), ("glm5_3_max_reasoning", False, None), ("role_colon", True, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "thinking", "wanted"), THINKING)
def test_thinking_is_a_variant_of_the_family(name, thinking, wanted):
    names = catalog.builtin_names()
    if name not in names:
        pytest.skip(f"this tinker-cookbook has no renderer {name!r}")
    assert catalog.thinking_variant(name, thinking, names) == wanted


def test_thinking_that_a_family_does_not_have_is_refused():
    with pytest.raises(OptionError, match=r"thinking=False.*qwen3_instruct") as caught:
        resolve("Qwen/Qwen3-4B-Instruct-2507", real_tokenizers.load("Qwen/Qwen3-8B"), backend="tinker", thinking=False)
    assert (caught.value.option, caught.value.backend) == ("thinking", "tinker")


def test_template_kwargs_are_refused():
    with pytest.raises(OptionError, match="chat_template_kwargs"):
        select_backend("Qwen/Qwen3-8B", backend="tinker", chat_template_kwargs={"enable_thinking": False})


def test_without_tinker_cookbook_the_plugin_says_so(monkeypatch):
    real = sys.meta_path

    class Hide:
        def find_spec(self, name, path=None, target=None):
            return None

    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    found = covers("Qwen/Qwen3-8B")
    assert isinstance(found, Unavailable)
    assert "isn't installed" in found.reason and found.fix == "pip install tinker-cookbook"
    assert sys.meta_path is real


def test_a_broken_install_is_called_broken(monkeypatch):
    def broken(model):
        raise ModuleNotFoundError("No module named 'y'", name="y")

    monkeypatch.setattr(catalog, "recommended", broken)
    found = covers("Qwen/Qwen3-8B")
    assert isinstance(found, Unavailable)
    assert "installed but broken" in found.reason and "'y'" in found.reason


def test_candidates_are_every_variant_once_families_first_and_never_role_colon():
    names = [each.renderer for each in TinkerBackend().candidates(Query("/ckpt/run7"))]
    assert len(names) == len(set(names)) >= 8
    assert "role_colon" not in names and names.index("qwen3") < names.index("qwen3_5_disable_thinking")
    assert all(isinstance(each, Coverage) for each in TinkerBackend().candidates(Query("/ckpt/run7")))


def test_explain_without_the_plugin_says_not_installed(no_plugins, monkeypatch):
    from rllm_renderer_core.plugin import discovery

    monkeypatch.setitem(discovery.KNOWN_PLUGINS, "tinker", "rllm-renderer-tinker")
    row = next(v for v in explain("Qwen/Qwen3-8B").verdicts if v.backend == "tinker")
    assert row.verdict == "not installed" and " 'rllm-renderer-tinker @ git+https://" in row.fix
