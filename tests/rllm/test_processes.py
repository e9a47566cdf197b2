"""One resolution for every process: the gateway started as a process with a pin, and processes that differ."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
import real_tokenizers
import scripted_rollout as script
from rllm_source import environment
from scripted_client import play

from rllm_renderer_core import Resolution, resolve, select_backend

MODEL = "Qwen/Qwen3-8B"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A folder with the model's tokenizer, under a name that no list has."""
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("step_40")
    real_tokenizers.load(MODEL).save_pretrained(folder)
    # Without the model's type, transformers may take another tokenizer class, and other ids.
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    return folder


@pytest.fixture
def pin(tmp_path):
    """``pin(**changes)``: a pin file of the model as it resolves here."""
    if select_backend(MODEL).backend != "prime":
        pytest.skip("prime isn't here")

    def pin(**changes):
        file = tmp_path / "renderer.json"
        file.write_text(json.dumps({**select_backend(MODEL).to_dict(), **changes}))
        return str(file)

    return pin


class GatewayProcess:
    """``python -m rllm_model_gateway`` on a free port of 127.0.0.1, ended with the ``with`` block."""

    command = ("-m", "rllm_model_gateway")

    def __init__(self, changed, *arguments, **variables):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore",
                *self.command,
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                *arguments,
            ],
            env=environment(changed, variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ready(self):
        for _ in range(1200):
            if self.process.poll() is not None:
                return False
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=1).close()
                return True
            except OSError:
                time.sleep(0.2)
        return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.output = self.process.communicate(timeout=30)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.output = self.process.communicate()[0]


def test_gateway_process_uses_the_pinned_renderer(changed, checkpoint, pin):
    """From a checkpoint's folder, which says nothing of the model, and without a family."""
    worker = script.Worker(resolve(MODEL, real_tokenizers.load(MODEL)))
    with script.Served(worker.app()) as worker_url:
        arguments = ("--model", str(checkpoint), "--cumulative-token-mode", "--worker", f"{worker_url}/v1")
        with GatewayProcess(changed, *arguments, RLLM_RENDERER_PIN=pin()) as gateway:
            assert gateway.ready(), gateway.process.stdout.read()[-3000:]
            play(gateway.url, 0)
    assert [entry["path"] for entry in worker.log] == ["chat"] + ["completions"] * (len(script.TURNS) - 1)


def test_pin_of_other_renderer_sources_is_refused_at_start_up_with_the_difference(changed, checkpoint, pin):
    other = {"upstream": {"renderers": "0.0.1"}, "sources": {"renderers": "another"}}
    arguments = ("--model", str(checkpoint), "--cumulative-token-mode")
    with GatewayProcess(changed, *arguments, RLLM_RENDERER_PIN=pin(**other)) as gateway:
        assert not gateway.ready()
        assert gateway.process.returncode != 0
    assert "upstream.renderers" in gateway.output and "0.0.1 there" in gateway.output, gateway.output[-3000:]


def test_gateway_process_without_a_bridge_says_what_to_do(changed, tmp_path, checkpoint):
    """Where the folder's name says nothing and detection is of no help: an error with every verdict, not a silent default."""
    from shutil import copytree

    folder = copytree(checkpoint, tmp_path / "other")
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}> {% endif %}"
    (folder / "chat_template.jinja").write_text(template)
    code = f"from rllm_renderer_rllm import build_renderer\nbuild_renderer({{'model': {str(folder)!r}}})\n"
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment(changed), capture_output=True, text=True, timeout=600
    )
    assert "NoBridgeError" in result.stderr and "fix: " in result.stderr, result.stderr[-2000:]


def test_processes_with_other_options_have_unequal_resolutions(changed, pin):
    code = (
        "import json, sys\n"
        "from rllm_renderer_core import select_backend\n"
        f"print(json.dumps(select_backend({MODEL!r}, **json.loads(sys.argv[1])).to_dict()))\n"
    )
    found = []
    for options in ({}, {"thinking_retention": "tool_cycle"}):
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, json.dumps(options)],
            env=environment(changed),
            capture_output=True,
            text=True,
            timeout=120,
        )
        found.append(Resolution.from_dict(json.loads(result.stdout)))
    assert found[0] != found[1]
    assert found[0].differences(found[1]) == ["options.thinking_retention: not set here, tool_cycle there"]
