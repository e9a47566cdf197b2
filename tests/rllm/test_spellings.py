"""rLLM's spellings and call forms, on toy plugins; nothing of rLLM is needed."""

from __future__ import annotations

import json
import pickle
import types

import pytest
import rllm_renderer_rllm as rllm
import toy
from rllm_renderer_rllm.renderer import RllmRenderer

from rllm_renderer_core import NoBackendError, NoBridgeError, OptionError, PinMismatchError, RendererWarning
from rllm_renderer_core.types import Renderer

PLUGIN = """
from rllm_renderer_core import Backend, Coverage, Match, hookimpl
from toy import ToyRenderer

class ToyBackend(Backend):
    name = {name!r}
    priority = {priority}
    spellings = frozenset({spellings!r})
    options = frozenset({{"thinking"}})
    def covers(self, query):
        if query.renderer is not None:
            return Coverage(query.renderer, Match.NAMED, {bridge}, "named") if query.renderer in {names!r} else None
        return Coverage({names!r}[0], Match.EXACT, {bridge}, "listed") if query.model in {models!r} else None
    def create(self, query, coverage):
        return ToyRenderer(query.tokenizer)
    def renderer_names(self):
        return {names!r}

@hookimpl
def rllm_renderer_backends():
    return [ToyBackend()]
"""


@pytest.fixture
def backend(no_plugins, install):
    """``backend(name, names, models=(), spellings=(), priority=50)``: an installed plugin."""

    def backend(name, names, models=(), spellings=(), priority=50, bridge=True):
        values = {"names": list(names), "models": list(models), "spellings": list(spellings)}
        install(f"rllm-renderer-toy-{name}", source=PLUGIN.format(name=name, priority=priority, bridge=bridge, **values))

    return backend


@pytest.fixture
def usual(backend):
    backend("prime", ["qwen3", "qwen3.5", "deepseek-v3"], ["Qwen/Qwen3-8B"], ["renderer_family"], 100)
    backend("tinker", ["qwen3", "qwen3_5", "llama3"], ["meta/L"], ["renderer_name"])
    backend("own", ["own-1"], ["me/own"])


@pytest.fixture
def tokenizer():
    return toy.ToyTokenizer()


@pytest.mark.parametrize(("model", "source"), [("Qwen/Qwen3-8B", "prime"), ("meta/L", "tinker"), ("me/own", "tinker")])
def test_source_is_one_of_the_words_that_call_sites_know(usual, tokenizer, model, source):
    found = rllm.resolve(model, tokenizer, backend="fireworks", family="auto")
    assert (found.source, found.name) == (source, found.renderer.name)
    assert rllm.get_renderer(model, tokenizer).resolution == found.resolution


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5", "qwen3.5", "deepseekv3", "deepseek_v3", "deepseek-v3"])
def test_names_that_rllm_made_aliases_mean_prime(usual, tokenizer, name):
    assert rllm.resolve("me/x", tokenizer, renderer_name=name).source == "prime"


def test_other_names_are_tinkers(usual, tokenizer):
    assert rllm.resolve("me/x", tokenizer, renderer_name="llama3").resolution.backend == "tinker"


def test_alias_without_prime_is_said(backend, tokenizer):
    backend("tinker", ["qwen3"], [], ["renderer_name"])
    with pytest.warns(RendererWarning, match="means prime's qwen3 in rLLM"):
        assert rllm.resolve("me/x", tokenizer, renderer_name="qwen3").resolution.backend == "tinker"


def test_family_of_a_third_partys_renderer(usual, tokenizer):
    """rLLM's gateway has no other field for it."""
    assert rllm.resolve("me/x", tokenizer, family="own-1").resolution.backend == "own"


def test_unknown_family_is_an_error_that_names_those_known(usual, tokenizer):
    with pytest.raises(NoBackendError, match=r"qwen3\.5"):
        rllm.resolve("Qwen/Qwen3-8B", tokenizer, family="qwen9")


def test_family_and_name_must_agree(usual, tokenizer):
    assert rllm.resolve("me/x", tokenizer, family="qwen3.5", renderer_name="qwen3_5").name == "qwen3.5"
    with pytest.raises(OptionError, match="two renderers"):
        rllm.resolve("me/x", tokenizer, family="qwen3", renderer_name="qwen3_5")


def test_training_backend_changes_nothing_and_a_renderer_backend_is_refused(usual, tokenizer):
    found = {
        rllm.resolve("Qwen/Qwen3-8B", tokenizer, backend=name).resolution for name in (None, "verl", "tinker", "fireworks")
    }
    assert len(found) == 1
    with pytest.raises(OptionError, match="renderer_backend='own'"):
        rllm.resolve("me/own", tokenizer, backend="own")
    assert rllm.resolve("Qwen/Qwen3-8B", tokenizer, renderer_backend="tinker", renderer_name="llama3").name == "llama3"


def test_a_gateway_needs_a_bridge(backend, tokenizer):
    backend("own", ["own-1"], ["toy/toy-1"], bridge=False)
    with pytest.raises(NoBridgeError, match="require_bridge"):
        rllm.build_renderer({"model": "toy/toy-1"}, tokenizer=tokenizer)
    assert rllm.build_renderer({"model": "toy/toy-1"}, tokenizer=tokenizer, require_bridge=False).has_bridge is False


def test_build_renderer_from_the_gateways_fields(usual, tokenizer):
    class Config:
        model, renderer_family, renderer_name = "Qwen/Qwen3-8B", "auto", None

    assert rllm.build_renderer(Config(), tokenizer=tokenizer).name == "qwen3"
    assert rllm.build_renderer({"model": "me/x", "renderer_family": "qwen3.5"}, tokenizer=tokenizer).name == "qwen3.5"
    with pytest.raises(NoBackendError, match="neither a model nor a tokenizer"):
        rllm.build_renderer({})


def test_build_renderer_loads_one_tokenizer(usual, tokenizer, monkeypatch):
    loaded = []
    monkeypatch.setattr(rllm.spellings, "load_tokenizer", lambda name: loaded.append(name) or tokenizer)
    assert rllm.build_renderer({"model": "Qwen/Qwen3-8B"}).tokenizer is tokenizer
    assert loaded == ["Qwen/Qwen3-8B"]


def test_pin_decides_over_a_checkpoints_folder(usual, tokenizer, tmp_path, monkeypatch):
    pinned = rllm.resolve("Qwen/Qwen3-8B", tokenizer, thinking=False).resolution
    file = tmp_path / "renderer.json"
    file.write_text(json.dumps(pinned.to_dict()))
    monkeypatch.setattr(rllm.spellings, "load_tokenizer", lambda name: tokenizer)
    assert rllm.build_renderer({"model": str(tmp_path)}, pin=file).resolution == pinned
    assert rllm.build_renderer({"model": str(tmp_path), "renderer_pin": str(file)}).resolution == pinned
    monkeypatch.setenv("RLLM_RENDERER_PIN", str(file))
    assert rllm.build_renderer({}).resolution == pinned
    assert rllm.resolve("Qwen/Qwen3-8B", tokenizer).resolution == pinned
    with pytest.raises(PinMismatchError, match="model: 'Qwen/Qwen3-8B' pinned, 'meta/L' passed"):
        rllm.build_renderer({"model": "meta/L"})
    with pytest.raises(PinMismatchError, match=r"qwen3.*pinned.*qwen3\.5"):
        rllm.build_renderer({"model": "Qwen/Qwen3-8B", "renderer_family": "qwen3.5"})


def test_pin_that_doesnt_hold_is_refused_before_a_tokenizer_is_loaded(usual, tokenizer, monkeypatch):
    pinned = rllm.resolve("Qwen/Qwen3-8B", tokenizer).resolution.to_dict()
    monkeypatch.setattr(rllm.spellings, "load_tokenizer", lambda name: pytest.fail("loaded"))
    with pytest.raises(PinMismatchError, match=r"rllm-renderer-toy-prime 1\.0 here, rllm-renderer-toy-prime 0\.9 there"):
        rllm.build_renderer({}, pin={**pinned, "plugin": "rllm-renderer-toy-prime 0.9"})


@pytest.mark.parametrize(
    ("text", "reason"), [("", "can't be read"), ("[]", "holds list instead of a resolution"), ("{}", "schema None")]
)
def test_pin_file_that_is_none(usual, tmp_path, text, reason):
    file = tmp_path / "renderer.json"
    file.write_text(text)
    with pytest.raises(PinMismatchError, match=reason):
        rllm.build_renderer({}, pin=str(file))
    with pytest.raises(PinMismatchError, match="can't be read"):
        rllm.build_renderer({}, pin=str(tmp_path / "absent.json"))


# What the gateway and the engines read


@pytest.fixture
def renderer(usual, tokenizer):
    return rllm.resolve("me/own", tokenizer).renderer


def test_it_keeps_the_protocol_and_travels(renderer):
    assert isinstance(renderer, Renderer)
    messages = [{"role": "user", "content": "hi"}]
    again = pickle.loads(pickle.dumps(renderer))
    assert isinstance(again, RllmRenderer) and again.resolution == renderer.resolution
    assert again.render_ids(messages) == renderer.render_ids(messages)
    assert renderer.render(messages).token_ids == renderer.render_ids(messages)


def sampled(*texts):
    ids = []
    for text in texts:
        name, _, arguments = text.partition(" ")
        ids += [toy.CALL, *toy.encode(name), toy.ARGS, *toy.encode(arguments), toy.UNCALL]
    return [*ids, toy.END]


def test_calls_that_cant_be_run_stay_text(renderer):
    """rLLM's gateway hands every call to the client, those without a name too."""
    parsed = renderer.parse_response(sampled("look {}", ' {"q": 1}', 'count {"q":'))
    assert [call.name for call in parsed.tool_calls] == ["look"]
    assert '{"q": 1}' in parsed.content and 'count{"q":' in parsed.content


def test_output_for_engines(renderer):
    prompt = renderer.token_input([{"role": "user", "content": "hi"}])
    assert prompt[-1] == toy.ASSISTANT
    completion = [toy.THINK, *toy.encode("why"), toy.UNTHINK, *toy.encode("so"), *sampled('look {"q": 1}')]
    out = renderer.parse_completion(completion, prompt)
    assert out == ("so", "why", [{"name": "look", "arguments": {"q": 1}}])
    assert renderer.parse_completion([], None) == ("", "", [])
    assert renderer.stop_sequences == [toy.END]


def test_images_are_refused_by_a_renderer_of_text_and_never_dropped(renderer):
    from rllm_renderer_core import UnsupportedContentError

    message = {"role": "user", "content": "what is this?", "images": [object()]}
    with pytest.raises(UnsupportedContentError) as caught:
        renderer.token_input([{"role": "system", "content": "s"}, message])
    assert caught.value.index == 1
    assert renderer.bridge_to_next_turn([1], [toy.END], [message]) is None
    assert message["content"] == "what is this?"


def test_images_reach_a_renderer_of_images_before_the_text(no_plugins, install, tokenizer):
    """As rLLM puts them; the engine's prompt is the backend's own chunks then, and parsing takes them too."""
    source = PLUGIN.format(name="seeing", priority=50, bridge=True, names=["see"], models=["me/see"], spellings=[])
    source = source.replace(
        "        return ToyRenderer(query.tokenizer)",
        """        from types import SimpleNamespace
        from rllm_renderer_core import RendererTraits
        class Seeing(ToyRenderer):
            traits = RendererTraits(supports_media=True)
            def render(self, messages, **options):
                texts = ["".join(part.get("text", "") for part in message["content"]) for message in messages]
                out = ToyRenderer.render(self, [{**m, "content": t} for m, t in zip(messages, texts)], **options)
                pictures = [part["image"] for part in messages[0]["content"] if "image" in part]
                chunks = [SimpleNamespace(length=2, image=picture) for picture in pictures]
                chunks += [SimpleNamespace(tokens=out.token_ids)]
                out.multi_modal_data = SimpleNamespace(chunks=chunks)
                return out
        return Seeing(query.tokenizer)""",
    )
    install("rllm-renderer-seeing", source=source)
    renderer = rllm.resolve("me/see", tokenizer).renderer
    chunks = renderer.token_input([{"role": "user", "content": "what?", "images": [b"a picture", b"another"]}])
    assert [getattr(chunk, "image", None) for chunk in chunks] == [b"a picture", b"another", None]
    assert renderer.parse_completion([*toy.encode("a cat"), toy.END], chunks).content == "a cat"


def test_reasoning_effort_of_a_call(no_plugins, install, tokenizer):
    """A prompt of another effort comes from the same renderer at that effort; a model that has none keeps its prompt."""
    values = {"priority": 50, "bridge": True, "names": ["own"], "models": ["me/own"], "spellings": []}
    source = PLUGIN.format(name="own", **values).replace('{"thinking"}', '{"chat_template_kwargs"}')
    source = source.replace(
        "        return ToyRenderer(query.tokenizer)",
        """        effort = (query.chat_template_kwargs or {}).get("reasoning_effort", "medium")
        class Trying(ToyRenderer):
            def render(self, messages, **options):
                return ToyRenderer.render(self, [{"role": "system", "content": effort}, *messages], **options)
        return Trying(query.tokenizer)""",
    )
    install("rllm-renderer-own", source=source)
    asked = [{"role": "user", "content": "hi"}]
    for own in (None, "high"):
        renderer = rllm.resolve("me/own", tokenizer, reasoning_effort=own, parity="off").renderer
        for effort in (None, "low", "medium", "high", "low"):
            wanted = toy.encode(effort or own or "medium")
            assert renderer.token_input(asked, reasoning_effort=effort)[2 : 2 + len(wanted)] == wanted


def test_tools_as_rllms_objects(renderer):
    declared = {"type": "function", "function": {"name": "look"}}
    tool = types.SimpleNamespace(json=declared)
    message = [{"role": "user", "content": "hi"}]
    assert renderer.render_ids(message, tools=[tool]) == renderer.render_ids(message, tools=[declared])
    assert renderer.render_ids(message, tools=[]) == renderer.render_ids(message)


def test_reasoning_effort_of_a_model_without_one_changes_nothing(renderer, caplog):
    asked = [{"role": "user", "content": "hi"}]
    with caplog.at_level("INFO", "rllm_renderer"):
        assert renderer.token_input(asked, reasoning_effort="high") == renderer.token_input(asked)
    assert "no mode for reasoning_effort='high'" in caplog.text


def test_declines_have_reasons(renderer):
    prompt = renderer.token_input([{"role": "user", "content": "hi"}])
    assert "no new message" in renderer.resolved.try_bridge(prompt, [toy.END], []).reason
    assert renderer.bridge_to_next_turn(prompt, [toy.END], []) is None
    assert (
        renderer.bridge_to_next_turn(prompt, [toy.END], [{"role": "user", "content": "x"}]).token_ids[: len(prompt)] == prompt
    )
