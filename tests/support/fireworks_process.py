"""Python in a process of its own, with the real cookbook, the stand-in, a stranger's package or nothing as ``training``."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

STANDIN = pathlib.Path(__file__).with_name("standin_training")

PREAMBLE = '''\
import json, sys, warnings
import rllm_renderer_core as core
QWEN = "Qwen/Qwen3-8B"
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": "ping"}]
class Bare:
    """A tokenizer without template and vocabulary, for what is decided before either is needed."""
    name_or_path, chat_template = "", None
def tokenizer(model=QWEN):
    import real_tokenizers
    return real_tokenizers.load(model)
def ids(model=QWEN, on=QWEN, **options):
    options.setdefault("parity", "off")
    return core.resolve(model, tokenizer(on), **options).render_ids(MESSAGES, add_generation_prompt=True)
def error(call):
    try:
        call()
    except Exception as caught:
        return [type(caught).__name__, str(caught)]
def say(value):
    print(json.dumps(value))
'''


def run(source: str, *front: pathlib.Path, hide: bool = False, **environment: str) -> Any:
    """What the source says with ``say(...)``.

    Args:
        source: Runs behind ``PREAMBLE``.
        front: Folders at the start of the path.
        hide: Whether there is no package ``training``, whatever is installed.
        environment: Further variables. The backend tml, which serves some of the same models, is switched off unless they say
            otherwise.
    """
    code = ('import sys; sys.modules["training"] = None\n' if hide else "") + PREAMBLE + source
    path = [*map(str, front), *filter(None, sys.path)]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "HF_HUB_OFFLINE": "1",
        "RLLM_RENDERER_DISABLED": "tml",
        **environment,
    }
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
