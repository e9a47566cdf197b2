"""Coverage, options, and what the distribution promises: light to import, small, dependent on the core alone."""

from __future__ import annotations

import copy
import pathlib
import pickle
import subprocess
import sys

import m3_tokenizer as m3
import pytest
import tomllib

from rllm_renderer_core.errors import MessageError, OptionError, TokenizerError, UnsupportedContentError
from rllm_renderer_core.plugin import Match, Query
from rllm_renderer_core.types import Renderer

tokenizer = m3.load()
import rllm_renderer_minimax_m3 as plugin  # noqa: E402

(BACKEND,) = plugin.rllm_renderer_backends()
ROOT = pathlib.Path(__file__).parents[2] / "plugins" / "rllm-renderer-minimax-m3"


def create(**query):
    query = Query(model=m3.MODEL, tokenizer=tokenizer, **query)
    return BACKEND.create(query, BACKEND.covers(query))


@pytest.mark.parametrize("model", ["MiniMaxAI/MiniMax-M3", "MiniMaxAI/MiniMax-M3-MXFP8"])
def test_covers_the_published_names(model):
    coverage = BACKEND.covers(Query(model=model))
    assert (coverage.renderer, coverage.match, coverage.has_bridge) == ("minimax-m3", Match.EXACT, True)


@pytest.mark.parametrize(
    "model", ["MiniMaxAI/MiniMax-M2", "me/MiniMax-M3-sft", "MiniMaxAI/MiniMax-M3.5", "/ckpt/MiniMaxAI/MiniMax-M3", ""]
)
def test_covers_no_other_name(model):
    assert BACKEND.covers(Query(model=model)) is None


def test_named_renderer_serves_any_model_and_no_other_name():
    assert BACKEND.covers(Query(model="/ckpt/run7", renderer="minimax-m3")).match is Match.NAMED
    assert BACKEND.covers(Query(model=m3.MODEL, renderer="qwen3")) is None


def test_it_has_what_the_core_asks_for():
    subject = create()
    assert isinstance(subject, Renderer)
    assert subject.get_stop_token_ids() == [200020] and subject.traits.stop_strings == ["[e~["]
    assert subject.traits.reasoning_ids() == (200059, 200060)


@pytest.mark.parametrize(
    "query, words",
    [
        ({"chat_template_kwargs": {"enable_thinking": True}}, "enable_thinking"),
        ({"chat_template_kwargs": {"thinking_mode": "on"}}, "'on'"),
        ({"chat_template_kwargs": {"thinking_mode": None}}, "thinking_mode=None"),
        ({"chat_template_kwargs": {"marker_text": True}}, "marker_text"),
        ({"chat_template_kwargs": {"model_identity": 3}}, "model_identity"),
        ({"thinking": True, "chat_template_kwargs": {"thinking_mode": "adaptive"}}, "contradicts"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused(query, words):
    with pytest.raises(OptionError, match=words) as caught:
        create(**query)
    assert caught.value.backend == "minimax-m3" and caught.value.option in query
    assert "minimax-m3" in str(caught.value)


def test_thinking_and_its_keyword_may_agree():
    assert create(thinking=False, chat_template_kwargs={"thinking_mode": "disabled"}).options.thinking_mode == "disabled"


@pytest.mark.parametrize(
    "messages, index, words",
    [
        ([{"role": "user", "content": "a"}, {"role": "function", "content": "b"}], 1, "function"),
        ([{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}], 1, "made no call"),
        ([{"role": "tool", "content": "b"}], 0, "made no call"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "tool"}], 2, "made no call"),
    ],
)
def test_messages_without_a_place_in_the_format(messages, index, words):
    with pytest.raises(MessageError, match=words) as caught:
        create().render(messages)
    assert caught.value.index == index


@pytest.mark.parametrize("kind", ["image", "video", "image_url"])
def test_media_is_refused(kind):
    with pytest.raises(UnsupportedContentError, match="minimax-m3 renders text alone") as caught:
        create().render([{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": kind, kind: b"x"}]}])
    assert caught.value.index == 1


def test_text_parts_are_joined():
    parts = [{"type": "text", "text": "a"}, "b", {"type": "text", "text": "\nc"}]
    assert create().render_ids([{"role": "user", "content": parts}]) == m3.template_ids([{"role": "user", "content": parts}])


def test_another_tokenizer_is_refused():
    class Bytes:
        def encode(self, text, add_special_tokens=False):
            return list(text.encode())

    for wrong in (Bytes(), None):
        with pytest.raises(TokenizerError, match="minimax-m3"):
            BACKEND.create(Query(model=m3.MODEL, tokenizer=wrong), BACKEND.covers(Query(model=m3.MODEL)))


class Minimal:
    """The least that a tokenizer must have."""

    def encode(self, text, add_special_tokens=True):
        return tokenizer.encode(text, add_special_tokens=add_special_tokens)

    def decode(self, ids, skip_special_tokens=True):
        return tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)


def test_a_minimal_tokenizer_is_enough():
    query = Query(model=m3.MODEL, tokenizer=Minimal())
    messages = [{"role": "user", "content": "say [e~[ and <filename>"}]
    assert BACKEND.create(query, BACKEND.covers(query)).render_ids(messages) == create().render_ids(messages)


@pytest.mark.parametrize("again", [lambda r: pickle.loads(pickle.dumps(r)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_copy_gives_the_same_ids(again):
    subject = create(thinking=True)
    messages = [{"role": "user", "content": "hi"}]
    assert again(subject).render(messages, add_generation_prompt=True) == subject.render(messages, add_generation_prompt=True)


def test_results_are_not_shared_with_the_cache():
    subject = create()
    first = subject.render_ids([])
    first.append(0)
    assert subject.render_ids([]) == first[:-1]


def run(code):
    """What a fresh interpreter prints, with this one's path and without its start-up files, which editable installs need."""
    folders = [str(ROOT), str(ROOT.parents[1]), *sys.path]
    code = f"import sys\nsys.path[:0] = {folders!r}\n{code}"
    return subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_plugin_is_light():
    found = run("import rllm_renderer_minimax_m3 as p\np.rllm_renderer_backends()\nprint(*sys.modules)").split()
    assert not {"torch", "transformers", "tokenizers", "jinja2", "rllm_renderer_minimax_m3.renderer"} & set(found)


def test_rendering_needs_the_core_alone():
    found = {name.partition(".")[0] for name in run("import rllm_renderer_minimax_m3.renderer\nprint(*sys.modules)").split()}
    assert found - sys.stdlib_module_names - {"__main__"} == {"pluggy", "rllm_renderer_core", "rllm_renderer_minimax_m3"}


def test_the_distribution_depends_on_the_core_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [line.partition(">")[0] for line in project["dependencies"]] == ["rllm-renderer-core"]
    assert project["entry-points"]["rllm_renderer"] == {"minimax-m3": "rllm_renderer_minimax_m3"}
    source = sum(path.stat().st_size for path in (ROOT / "rllm_renderer_minimax_m3").glob("*.py"))
    assert source < 60_000
