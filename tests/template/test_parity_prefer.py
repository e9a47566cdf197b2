"""``parity="prefer"``: a winner by name that the chat template disproves gives way to a renderer that it proves."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import warnings

import pytest
import real_tokenizers
from rllm_renderer_template.parity.probes import PROBES
from toy import ToyTokenizer
from toy_template import TemplateTokenizer, plugin_source

from rllm_renderer_core import NoBridgeError, RendererWarning, explain, resolve, select_backend

pytestmark = pytest.mark.usefixtures("no_plugins")

LISTED = {"toy/right": "right", "toy/one": "trims", "toy/mute": "no-tools"}
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.fixture
def toy(no_plugins, install):
    install("rllm-renderer-toy", source=plugin_source("trims", "right", listed=LISTED))


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RendererWarning)
        yield


@pytest.mark.usefixtures("toy")
def test_a_renderer_that_differs_gives_way_to_one_that_is_equal_and_it_is_said():
    resolution = resolve("toy/one", TemplateTokenizer()).resolution
    assert (resolution.renderer, resolution.match) == ("right", "parity")
    total = len(PROBES)
    assert resolution.reason.startswith(f"equal on {total} of {total} probes, where toy:trims, listed, is equal on ")
    assert resolution.hints == ()


@pytest.mark.usefixtures("toy")
def test_one_that_refuses_tools_that_the_template_shows_gives_way():
    assert resolve("toy/mute", TemplateTokenizer()).name == "right"


@pytest.mark.usefixtures("toy")
def test_explain_says_so_and_a_pin_holds_it():
    table = explain("toy/one", TemplateTokenizer())
    assert table.winner == "toy"
    winner = next(each for each in table.verdicts if each.backend == "toy")
    assert (winner.renderer, winner.match) == ("right", "parity") and "where toy:trims, listed, is" in winner.reason
    pin = resolve("toy/one", TemplateTokenizer()).resolution
    again = resolve(pin=pin.to_dict(), tokenizer=TemplateTokenizer())
    assert again.resolution == pin and again.name == "right"


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("forced", [{"renderer": "trims"}, {"pin": "by name"}])
def test_what_the_user_forces_stays(forced):
    if "pin" in forced:
        forced = {"pin": select_backend("toy/one")}
    with pytest.warns(RendererWarning, match="differs from the tokenizer's chat template"):
        assert resolve("toy/one", TemplateTokenizer(), **forced).name == "trims"


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("mode", ["warn", "off"])
def test_other_modes_keep_the_winner(mode):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert resolve("toy/one", TemplateTokenizer(), parity=mode).name == "trims"


@pytest.mark.usefixtures("toy")
def test_an_equal_winner_costs_no_search():
    tokenizer, other = TemplateTokenizer(), TemplateTokenizer()
    assert resolve("toy/right", tokenizer).resolution.match == "exact"
    resolve("toy/right", other, parity="warn")
    assert tokenizer.renders == other.renders
    assert resolve("toy/one", ToyTokenizer()).name == "trims", "without a template there is nothing to compare with"


def test_without_an_equal_one_it_warns_as_before(install):
    install("rllm-renderer-toy", source=plugin_source("trims", "wrong-bridge", listed=LISTED))
    with pytest.warns(RendererWarning, match="differs from the tokenizer's chat template on [0-9]+ of"):
        assert resolve("toy/one", TemplateTokenizer()).name == "trims"


def test_a_declared_deviation_is_no_reason(install):
    source = plugin_source("right", listed=LISTED, deviations={"whitespace": "text is trimmed on purpose"})
    install("rllm-renderer-toy", source=source)
    assert resolve("toy/one", TemplateTokenizer()).name == "trims"


def test_priority_decides_among_equal_ones(install):
    install("rllm-renderer-a", source=plugin_source(name="a", priority=70, listed=LISTED))
    install("rllm-renderer-b", source=plugin_source("right", name="b", priority=40))
    install("rllm-renderer-c", source=plugin_source("right", name="c", priority=50))
    resolution = resolve("toy/one", TemplateTokenizer()).resolution
    assert (resolution.backend, resolution.renderer) == ("c", "right")


def test_a_bridge_that_is_required_is_required_of_it_too(install):
    install("rllm-renderer-a", source=plugin_source(name="a", priority=70, listed=LISTED))
    source = plugin_source("never-bridges", name="b").replace("Match.NAMED, True", "Match.NAMED, False")
    install("rllm-renderer-b", source=source)
    with pytest.warns(RendererWarning, match="differs"):
        assert resolve("toy/one", TemplateTokenizer(), require_bridge=True).name == "trims"
    assert resolve("toy/one", TemplateTokenizer()).name == "never-bridges"
    with pytest.raises(NoBridgeError):
        resolve("toy/one", TemplateTokenizer(), backend="chat-template", template_bridge=False, require_bridge=True)


SAME = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {support!r})
import real_tokenizers
from rllm_renderer_core import resolve
print(resolve({model!r}, real_tokenizers.load({model!r})).resolution)
"""


def test_llama_3_1_is_served_by_what_is_proven(monkeypatch):
    """tinker's renderer by name has no tools and differs from the template; prime's isn't listed for it and is equal."""
    pytest.importorskip("renderers")
    pytest.importorskip("tinker_cookbook")
    if reason := real_tokenizers.missing(LLAMA):
        pytest.skip(reason)
    support = str(pathlib.Path(real_tokenizers.__file__).parent)
    code = SAME.format(support=support, model=LLAMA)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "backend='prime', renderer='llama-3', match='parity'" in out
    assert "where tinker:llama3, " in out
