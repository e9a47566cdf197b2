"""The core with few plugins: no other distribution is imported, and what is missing is named with its fix."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import pytest
import toy
from plugin_source import plugin

from rllm_renderer_core import BackendUnavailableError, NoBackendError, RendererWarning, resolve, select_backend

MODEL = "toy/toy-1"


class Templated(toy.ToyTokenizer):
    chat_template = "{{ messages }}"


def cold(script, **environment):
    """What a cold process prints as JSON, with the distributions of this repository that it has imported."""
    script = f"""
import json, sys, warnings
warnings.simplefilter("ignore")
{script}
packages = sorted({{name.partition(".")[0] for name in sys.modules if name.startswith("rllm_renderer")}})
print(json.dumps([result, packages]))
"""
    environment = {**os.environ, **environment}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_the_core_and_one_plugin_import_no_other_distribution():
    pytest.importorskip("rllm_renderer_minimax_m3")
    script = """
from rllm_renderer_core import NoBackendError, select_backend
result = [select_backend("MiniMaxAI/MiniMax-M3").backend]
try:
    select_backend("nobody/knows")
except NoBackendError as error:
    result.append(error.fix)
"""
    (backend, fix), packages = cold(script, RLLM_RENDERER_PLUGINS="minimax-m3")
    assert backend == "minimax-m3" and "add its name to RLLM_RENDERER_PLUGINS (it serves any tokenizer" in fix
    assert packages == ["rllm_renderer_core", "rllm_renderer_minimax_m3"]


TURN = """
import toy
from rllm_renderer_core import resolve
renderer = resolve("toy/toy-1", toy.ToyTokenizer())
prompt = renderer.render_ids([{"role": "user", "content": "hi"}], add_generation_prompt=True)
completion = [*toy.encode("hello"), *renderer.get_stop_token_ids()[:1]]
content = renderer.parse_response(completion, prompt_ids=prompt).content
bridge = renderer.bridge_to_next_turn(prompt, completion, [{"role": "user", "content": "more"}]).token_ids
result = [content, bridge[: len(prompt) + len(completion)] == [*prompt, *completion], toy.decode(bridge)]
"""


def test_a_cold_core_with_a_toy_plugin_renders_parses_and_bridges_and_imports_no_other_distribution(install, monkeypatch):
    info = install("rllm-renderer-toy", source=plugin("toy"))
    paths = [str(info.parent), *(path for path in sys.path if path)]
    (content, kept, text), packages = cold(TURN, RLLM_RENDERER_PLUGINS="toy", PYTHONPATH=os.pathsep.join(paths))
    assert (content, kept, packages) == ("hello", True, ["rllm_renderer_core"])
    assert text.index("hello") < text.index("more")


def test_the_chat_template_can_be_disabled_like_any_plugin(install, monkeypatch):
    install("rllm-renderer-a", source=plugin("a"))
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "chat-template")
    with pytest.raises(NoBackendError) as caught:
        select_backend("nobody/knows")
    assert "take its name out of RLLM_RENDERER_DISABLED (it serves any tokenizer" in caught.value.fix
    with pytest.raises(BackendUnavailableError, match="switched off by RLLM_RENDERER_DISABLED"):
        select_backend("nobody/knows", backend="chat-template")
    with pytest.warns(RendererWarning, match="can't be compared with the tokenizer's chat template") as warned:
        assert resolve(MODEL, Templated()).backend == "a"
    assert len(warned) == 1 and "take its name out of RLLM_RENDERER_DISABLED; or parity='off'" in str(warned[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve(MODEL, Templated())
        resolve(MODEL, Templated(), parity="off")
