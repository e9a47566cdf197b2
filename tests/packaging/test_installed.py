"""What installing changes, in a fresh venv: each set of wheels serves what it says, and nothing else comes with it.

The venv needs a package index for the dependencies of others.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
import venv
from contextlib import contextmanager

import pytest
import real_tokenizers
from building import run

pytestmark = pytest.mark.whole
QWEN, M3 = "Qwen/Qwen3-8B", "MiniMaxAI/MiniMax-M3"

TURN = """
import json, sys
from transformers import PreTrainedTokenizerFast
from rllm_renderer_core import resolve
model, folder = sys.argv[1:]
tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
renderer = resolve(model, tokenizer)
asked, more = {"role": "user", "content": "How many?"}, {"role": "user", "content": "Sure?"}
prompt = renderer.render_ids([asked], add_generation_prompt=True)
sampled = [*tokenizer.encode("Four apples.", add_special_tokens=False), renderer.get_stop_token_ids()[0]]
parsed = renderer.parse_response(sampled, prompt_ids=prompt)
bridged = renderer.bridge_to_next_turn(prompt, sampled, [more])
print(json.dumps({
    "backend": renderer.backend,
    "prompt": prompt,
    "parsed": parsed.content,
    "kept": bridged.token_ids[: len(prompt + sampled)] == prompt + sampled,
    "added": tokenizer.decode(bridged.token_ids[len(prompt + sampled) :]),
    "ours": sorted({name.partition(".")[0] for name in sys.modules if name.startswith("rllm_renderer_")}),
}))
"""
"""A turn and the next one, with the tokenizer of a folder."""

TOY = """
from rllm_renderer_core import Backend, Coverage, Match, RenderedTokens, ParsedResponse, hookimpl

class Renderer:
    def __init__(self, tokenizer): self.tokenizer = tokenizer
    def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
        text = "".join(f"{message['role']}: {message['content']}\\n" for message in messages)
        return list((text + "assistant: " * add_generation_prompt).encode())
    def render(self, messages, *, tools=None, add_generation_prompt=False):
        ids = self.render_ids(messages, tools=tools, add_generation_prompt=add_generation_prompt)
        return RenderedTokens(ids, [None] * len(ids), [None] * len(ids))
    def parse_response(self, token_ids, *, tools=None, prompt_ids=None):
        return ParsedResponse(content=bytes(token_ids).decode())
    def bridge_to_next_turn(self, *args, **kwargs): return None
    def get_stop_token_ids(self): return [10]

class Toy(Backend):
    name, priority = "toy", 10
    def covers(self, query):
        return Coverage("toy", Match.EXACT, False, "made up") if query.model == "toy/toy-1" else None
    def create(self, query, coverage): return Renderer(query.tokenizer)

@hookimpl
def rllm_renderer_backends(): return [Toy()]
"""
COLD = """
import sys
before = set(sys.modules)
from rllm_renderer_core import resolve
class Letters:
    name_or_path, chat_template, eos_token_id = "toy", None, 10
    def encode(self, text, **_): return list(text.encode())
    def decode(self, ids, **_): return bytes(ids).decode()
    def get_vocab(self): return {chr(byte): byte for byte in range(128)}
    def get_added_vocab(self): return {}
    def convert_tokens_to_ids(self, token): return ord(token)
    def __len__(self): return 128
renderer = resolve("toy/toy-1", Letters(), parity="off")
assert bytes(renderer.render_ids([{"role": "user", "content": "hi"}])) == b"user: hi\\n"
names = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(names - sys.stdlib_module_names))
"""


class Venv:
    def __init__(self, folder, wheels):
        venv.create(folder, with_pip=True)
        self.bin, self.wheels = folder / ("Scripts" if os.name == "nt" else "bin"), wheels

    def pip(self, *arguments, check=True):
        return run(self.bin / "python", "-m", "pip", *arguments, "--quiet", check=check)

    def install(self, *requirements):
        self.pip("install", "--find-links", self.wheels, *requirements)

    def packages(self):
        listed = run(self.bin / "python", "-m", "pip", "list", "--format=json").stdout
        return {each["name"].lower().replace("_", "-") for each in json.loads(listed)}

    def python(self, code, *arguments):
        return run(self.bin / "python", "-c", code, *arguments).stdout.strip()

    def winner(self, model):
        return self.python(f"import rllm_renderer_core as r; print(r.select_backend({model!r}).backend)")

    def explained(self, model):
        return self.python(f"import rllm_renderer_core as r; print(r.explain({model!r}))")

    @property
    def site(self):
        return pathlib.Path(self.python("import sysconfig; print(sysconfig.get_path('purelib'))"))

    @contextmanager
    def holding(self, files):
        """Files of site-packages, by their paths within it, for as long as the block runs."""
        site = self.site
        try:
            for name, content in files.items():
                (site / name).parent.mkdir(exist_ok=True)
                (site / name).write_text(content, encoding="utf-8")
            yield
        finally:
            for folder in {name.partition("/")[0] for name in files}:
                shutil.rmtree(site / folder)

    def standing_in(self, versions):
        """Packages that have metadata and can't be imported, for those that are too large to be installed here."""
        files = {}
        for name, version in versions.items():
            files[f"{name.replace('-', '_')}/__init__.py"] = f"raise ImportError('{name} was imported')\n"
            files[f"{name.replace('-', '_')}-{version}.dist-info/METADATA"] = metadata(name, version)
        return self.holding(files)


def metadata(name, version):
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"


@pytest.fixture(scope="module")
def fresh(wheels, tmp_path_factory):
    """A venv with the core alone."""
    made = Venv(tmp_path_factory.mktemp("venv") / "v", wheels)
    probe = made.pip("download", "--no-deps", "--dest", wheels.parent / "probe", "pluggy", check=False)
    if probe.returncode:
        pytest.skip(f"not proved: no package index can be reached ({probe.stderr.strip().splitlines()[-1]})")
    made.install("rllm-renderer-core")
    return made


def official(model):
    """The prompt of ``TURN`` by the model's own template, for which transformers needs Jinja, and the core nothing."""
    tokenizer = real_tokenizers.load(model)
    return tokenizer.apply_chat_template(
        [{"role": "user", "content": "How many?"}], add_generation_prompt=True, return_dict=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """``folder(model)``: its tokenizer, saved as a checkpoint has it."""

    def folder(model):
        place = tmp_path_factory.mktemp("checkpoint")
        real_tokenizers.load(model).save_pretrained(place)
        return place

    return folder


class TestInFreshVenv:
    """In this order: each test leaves the venv as the next one finds it."""

    def test_the_core_brings_its_four_dependencies_and_what_they_need(self, fresh):
        found = fresh.packages() - {"pip", "setuptools", "wheel"}
        needed = {"rllm-renderer-core", "pluggy", "importlib-metadata", "packaging", "jsonschema"}
        of_jsonschema = {"attrs", "jsonschema-specifications", "referencing", "rpds-py", "typing-extensions"}
        of_importlib_metadata = {"zipp", "lazy-importer"}  # the latter from 10.2
        assert needed <= found <= needed | of_jsonschema | of_importlib_metadata

    def test_the_core_alone_serves_nothing_and_says_what_would(self, fresh):
        done = run(fresh.bin / "python", "-c", f"import rllm_renderer_core as r; r.select_backend({QWEN!r})", check=False)
        assert done.returncode and "NoBackendError" in done.stderr and "'rllm-renderer-template @ git+" in done.stderr

    def test_a_cold_core_with_a_toy_plugin_imports_no_other_distribution(self, fresh):
        entry = "[rllm_renderer]\ntoy = toy_plugin\n"
        files = {"toy_plugin/__init__.py": TOY, "toy_plugin-1.0.dist-info/METADATA": metadata("toy-plugin", "1.0")}
        with fresh.holding({**files, "toy_plugin-1.0.dist-info/entry_points.txt": entry}):
            imported = set(fresh.python(COLD).split())
        assert {"rllm_renderer_core", "toy_plugin"} <= imported
        assert imported <= {
            "rllm_renderer_core",
            "toy_plugin",
            "pluggy",
            "importlib_metadata",
            "packaging",
            "zipp",
            "lazy_importer",
        }

    def test_core_and_minimax_m3_alone_resolve_render_bridge_and_parse(self, fresh, folder):
        before = fresh.packages()
        fresh.install("rllm-renderer-minimax-m3")
        assert fresh.packages() - before == {"rllm-renderer-minimax-m3"}
        fresh.install("transformers==5.5.4")  # whose tokenizer a user has
        told = json.loads(fresh.python(TURN, M3, folder(M3)))
        assert (told["backend"], told["prompt"], told["kept"]) == ("minimax-m3", official(M3), True)
        assert told["parsed"] == "Four apples." and "Sure?" in told["added"]
        assert told["ours"] == ["rllm_renderer_core", "rllm_renderer_minimax_m3"]
        fresh.pip("uninstall", "-y", "rllm-renderer-minimax-m3")

    def test_core_and_template_alone_resolve_render_bridge_and_parse(self, fresh, folder):
        before = fresh.packages()
        fresh.install("rllm-renderer-template")
        assert fresh.packages() - before <= {"rllm-renderer-template", "jinja2", "markupsafe"}
        told = json.loads(fresh.python(TURN, QWEN, folder(QWEN)))
        assert (told["backend"], told["prompt"], told["kept"]) == ("chat-template", official(QWEN), True)
        assert told["parsed"] == "Four apples." and "Sure?" in told["added"]
        assert told["ours"] == ["rllm_renderer_core", "rllm_renderer_template"]

    def test_the_distribution_of_dependencies_brings_the_command(self, fresh):
        fresh.install("rllm-renderer")
        ours = {name for name in fresh.packages() if name.startswith("rllm-renderer")}
        assert ours == {"rllm-renderer", *(f"rllm-renderer-{name}" for name in ("core", "template", "training", "cli"))}
        text = run(fresh.bin / "rllm-renderer", "explain", QWEN).stdout
        assert "not installed" in text and "'rllm-renderer-prime @ git+" in text

    def test_installing_prime_makes_it_the_winner_and_uninstalling_undoes_it(self, fresh):
        before = fresh.packages()
        fresh.install("rllm-renderer-prime")
        assert not (fresh.packages() - before) & {"torch", "transformers"}
        assert fresh.winner(QWEN) == "prime"
        fresh.pip("uninstall", "-y", "rllm-renderer-prime")
        assert fresh.winner(QWEN) == "chat-template"

    def test_prime_without_its_upstream_is_said_to_be_broken_and_not_missing(self, fresh):
        fresh.install("rllm-renderer-prime")
        fresh.pip("uninstall", "-y", "renderers")
        assert fresh.winner(QWEN) == "chat-template"
        (line,) = (line for line in fresh.explained(QWEN).splitlines() if line.strip().startswith("prime"))
        assert "not installed" not in line.split("renderers")[0] and "renderers" in line

    def test_tml_serves_deepseek_v4_where_its_upstream_is_installed_and_no_more_once_it_is_gone(self, fresh):
        model, name = "deepseek-ai/DeepSeek-V4-Flash", "rllm-renderer-tml"
        assert fresh.winner(model) == "chat-template" and f"'{name} @ git+" in fresh.explained(model)
        fresh.pip("install", "--no-deps", "--find-links", fresh.wheels, name)
        assert fresh.winner(model) == "chat-template" and "pip install tml-renderers" in fresh.explained(model)
        with fresh.standing_in({"tml-renderers": "0.2.1", "torch": "2.13.0"}):
            assert fresh.winner(model) == "tml"
            assert fresh.winner(QWEN) == "tml", "prime has no upstream here"
        fresh.pip("uninstall", "-y", name)
        assert fresh.winner(model) == "chat-template" and f"'{name} @ git+" in fresh.explained(model)


def test_one_line_installs_the_base_from_a_clone_and_nothing_is_in_conflict(tmp_path, clone):
    made = Venv(tmp_path / "v", clone)
    done = run(made.bin / "python", "-m", "pip", "install", "--quiet", "-r", "requirements/base.txt", cwd=clone)
    assert "conflict" not in done.stdout + done.stderr
    assert "No broken requirements" in run(made.bin / "python", "-m", "pip", "check").stdout
    assert "rllm-renderer" in run(made.bin / "rllm-renderer", "--version").stdout


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the plugins need Python 3.11")
def test_every_distribution_can_be_installed_together(clone):
    """What pip would install of requirements/all.txt; torch alone is half a gigabyte."""
    flags = ["--dry-run", "--quiet", "--no-build-isolation"]
    done = run(sys.executable, "-m", "pip", "install", *flags, "-r", "requirements/all.txt", cwd=clone)
    assert "conflict" not in done.stderr
