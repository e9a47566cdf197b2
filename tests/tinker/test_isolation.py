"""What one resolution can't do to another: imports, the registry that all share, threads, processes."""

import concurrent.futures
import pickle
import subprocess
import sys

import pytest
import real_tokenizers
import shapes
import tinker_oracle as oracle

from rllm_renderer_core import resolve

HEAVY = {"torch", "transformers", "tinker", "numpy", "pydantic", "PIL"}


def modules_after(code):
    script = f"import sys\n{code}\nprint(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "nobody/knows-this-one", "meta-llama/Llama-3.1-8B"])
def test_choosing_tinker_imports_nothing_heavy(model):
    code = f"""
from rllm_renderer_core import Query
from rllm_renderer_tinker.backend import TinkerBackend
TinkerBackend().covers(Query({model!r}))
TinkerBackend().covers(Query("", renderer="qwen3_5"))
list(TinkerBackend().candidates(Query({model!r})))
list(TinkerBackend().renderer_names())
"""
    assert not modules_after(code) & HEAVY


def test_the_plugin_module_imports_nothing_of_upstream():
    found = modules_after("import rllm_renderer_tinker")
    assert not found & {*HEAVY, "tinker_cookbook"}


def test_resolving_a_prime_model_never_imports_tinker():
    pytest.importorskip("rllm_renderer_prime")
    pytest.importorskip("renderers")
    code = """
from rllm_renderer_core import select_backend
assert select_backend("Qwen/Qwen3-8B").backend == "prime"
"""
    found = modules_after(code)
    assert not {name for name in found if name == "tinker" or name.partition(".")[0] == "tinker_cookbook"}


@pytest.fixture
def registry():
    from tinker_cookbook import renderers

    before = dict(renderers._CUSTOM_RENDERER_REGISTRY)
    yield renderers
    renderers._CUSTOM_RENDERER_REGISTRY.clear()
    renderers._CUSTOM_RENDERER_REGISTRY.update(before)


def resolved(name):
    tokenizer = real_tokenizers.load("Qwen/Qwen3-8B")
    return resolve("/ckpt/run7", tokenizer, backend="tinker", renderer=name, parity="off")


def test_a_builtin_name_is_upstreams_own_whoever_registered_it(registry):
    from tinker_cookbook.renderers.qwen3 import Qwen3Renderer

    class Other(Qwen3Renderer):
        pass

    registry.register_renderer("qwen3", lambda tokenizer, image_processor=None: Other(tokenizer))
    assert type(resolved("qwen3").upstream.upstream) is Qwen3Renderer
    assert registry.is_renderer_registered("qwen3")


def test_a_registered_name_of_its_own_can_be_named(registry):
    from tinker_cookbook.renderers.qwen3 import Qwen3Renderer

    class Mine(Qwen3Renderer):
        pass

    registry.register_renderer("me/mine", lambda tokenizer, image_processor=None: Mine(tokenizer))
    assert type(resolved("me/mine").upstream.upstream) is Mine


def test_what_the_fireworks_cookbook_registers_changes_nothing_here(registry):
    from rllm_renderer_tinker.backend import TinkerBackend

    from rllm_renderer_core import Query

    def factory(tokenizer, image_processor=None):
        raise AssertionError

    factory.__module__ = "training.renderer.glm5"
    before = TinkerBackend().covers(Query("x", renderer="glm5")), sorted(TinkerBackend().renderer_names())
    registry.register_renderer("glm5", factory)
    registry.register_renderer("qwen3", factory)
    assert (TinkerBackend().covers(Query("x", renderer="glm5")), sorted(TinkerBackend().renderer_names())) == before
    assert resolved("qwen3").render_ids(shapes.OPENING)


def test_threads_give_what_one_gives(case, resolved):
    conversations = [messages for _, messages, opener in oracle.conversations() if opener][:16]
    prompt = resolved.render_ids(shapes.OPENING, add_generation_prompt=True)

    def work(messages):
        out = []
        for call in (
            lambda: resolved.render_ids(messages, add_generation_prompt=True),
            lambda: resolved.parse_response(prompt[:9] + resolved.get_stop_token_ids()[:1], prompt_ids=prompt),
            lambda: getattr(resolved.bridge_to_next_turn(prompt, prompt[-3:], messages[-1:]), "token_ids", None),
        ):
            try:
                out.append(call())
            except Exception as error:
                out.append(str(error))
        return out

    expected = [work(messages) for messages in conversations]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, conversations)) == expected


def test_pickling_keeps_the_tokenizer_that_was_passed_in():
    """Upstream pickles a renderer by the name of a tokenizer, which it loads again; a local path can't be."""
    tokenizer = real_tokenizers.load("Qwen/Qwen3-8B", name_or_path="ckpt/run7")
    renderer = resolve("Qwen/Qwen3-8B", tokenizer, backend="tinker", parity="off")
    again = pickle.loads(pickle.dumps(renderer))
    assert again.resolution == renderer.resolution
    assert again.render_ids(shapes.OPENING) == renderer.render_ids(shapes.OPENING)
    prompt = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
    sampled = [9, *renderer.get_stop_token_ids()]
    new = [shapes.user("x")]
    bridged, expected = (each.bridge_to_next_turn(prompt, sampled, new).token_ids for each in (again, renderer))
    assert bridged == expected


def test_upstreams_renderer_is_never_changed(case, resolved):
    upstream = resolved.upstream.upstream
    before = dict(vars(upstream))
    resolved.render([*shapes.OPENING, shapes.TEXT, shapes.user("x")], add_generation_prompt=True)
    if case.renderer != "llama3":
        resolved.render(shapes.OPENING, tools=shapes.TOOLS)
    assert vars(upstream) == before
