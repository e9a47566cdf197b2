"""What ``resolve(parity=...)`` says of a listed model whose renderer differs from the tokenizer's chat template."""

from __future__ import annotations

import logging
import pickle
import warnings

import pytest
from rllm_renderer_template.parity import comparison as parity
from rllm_renderer_template.parity.probes import PROBES
from toy import ToyTokenizer
from toy_template import TemplateTokenizer, plugin_source

from rllm_renderer_core import OptionError, ParityError, RendererWarning, resolve, select_backend
from rllm_renderer_core.normal_form.tokenizer import memory_of

WHITE = sum("whitespace" in probe.tags for probe in PROBES)

pytestmark = pytest.mark.usefixtures("no_plugins")

LISTED = {"toy/right": "right", "toy/one": "trims", "toy/strict": "no-system-later"}


@pytest.fixture
def toy(no_plugins, install):
    install("rllm-renderer-toy", source=plugin_source("trims", "right", listed=LISTED))


@pytest.mark.usefixtures("toy")
def test_nothing_is_said_where_it_is_equal():
    for mode in ("warn", "error", "off"):
        assert resolve("toy/right", TemplateTokenizer(), parity=mode).name == "right"


@pytest.mark.usefixtures("toy")
def test_the_warning_names_probe_ids_and_the_renderer_that_is_equal():
    with pytest.warns(RendererWarning) as caught:
        renderer = resolve("toy/one", TemplateTokenizer(), parity="warn")
    assert renderer.name == "trims" and len(caught) == 1
    assert str(caught[0].message).splitlines() == [
        f"toy/one: toy:trims differs from the tokenizer's chat template on {WHITE} of {len(PROBES)} probes, "
        "first on 'white space at the edges'",
        "  the template at id 2: ' Be br'",
        "  toy:trims    at id 2: 'Be bri'",
        f"  toy:right is equal on {len(PROBES)} of {len(PROBES)} probes",
        "  fix: backend='toy', renderer='right'; parity='off' keeps toy:trims",
    ]


@pytest.mark.usefixtures("toy")
def test_it_is_said_once():
    tokenizer = TemplateTokenizer()
    with pytest.warns(RendererWarning):
        resolve("toy/one", tokenizer, parity="warn")
    renders = tokenizer.renders
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve("toy/one", tokenizer, parity="warn")
    assert tokenizer.renders == renders


@pytest.mark.usefixtures("toy")
def test_error_raises_it_with_the_report():
    with pytest.raises(ParityError, match="first on 'white space at the edges'") as caught:
        resolve("toy/one", TemplateTokenizer(), parity="error")
    assert "renderer='right'" in caught.value.fix
    assert caught.value.report.differences[0].probe == "white space at the edges"
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.report == caught.value.report


@pytest.mark.usefixtures("toy")
def test_off_compares_nothing():
    tokenizer = TemplateTokenizer()
    assert resolve("toy/one", tokenizer, parity="off").name == "trims"
    assert tokenizer.renders == 0


@pytest.mark.usefixtures("toy")
def test_a_refusal_is_no_difference():
    assert resolve("toy/strict", TemplateTokenizer(), parity="error").name == "no-system-later"


@pytest.mark.usefixtures("toy")
def test_a_renderer_that_the_user_named_is_compared_too():
    with pytest.raises(ParityError):
        resolve("toy/right", TemplateTokenizer(), renderer="trims", parity="error")


@pytest.mark.usefixtures("toy")
def test_a_pinned_one_is_compared_and_ids_dont_depend_on_how():
    pin = select_backend("toy/one")
    assert pin == resolve(pin=pin, tokenizer=TemplateTokenizer(), parity="off").resolution
    assert "parity" not in pin.to_dict()["options"]
    with pytest.raises(ParityError):
        resolve(pin=pin, tokenizer=TemplateTokenizer(), parity="error")


@pytest.mark.usefixtures("toy")
def test_without_a_template_there_is_nothing_to_compare():
    assert resolve("toy/one", ToyTokenizer(), parity="error").name == "trims"


@pytest.mark.usefixtures("toy")
def test_the_chat_template_isnt_compared_with_itself():
    tokenizer = TemplateTokenizer()
    resolve("toy/one", tokenizer, backend="chat-template", parity="error")
    assert memory_of(tokenizer, "reports") == {}


@pytest.mark.usefixtures("toy")
def test_other_values_are_refused():
    with pytest.raises(OptionError, match="parity must be one of 'prefer', 'warn', 'error', 'off', not True"):
        resolve("toy/one", TemplateTokenizer(), parity=True)


def test_without_an_equal_renderer_the_fix_is_to_look_further(install):
    install("rllm-renderer-toy", source=plugin_source("trims", "wrong-bridge", listed=LISTED))
    with pytest.warns(RendererWarning, match="rllm-renderer detect --tokenizer PATH") as caught:
        resolve("toy/one", TemplateTokenizer(), parity="warn")
    assert "equal on" not in str(caught[0].message)


def test_a_renderer_of_lower_priority_isnt_tried(install):
    install("rllm-renderer-a", source=plugin_source(name="a", priority=70, listed=LISTED))
    install("rllm-renderer-b", source=plugin_source("right", name="b", priority=60))
    with pytest.warns(RendererWarning) as caught:
        resolve("toy/one", TemplateTokenizer(), parity="warn")
    assert "b:right" not in str(caught[0].message)


def test_a_documented_difference_is_logged_and_no_warning(install, caplog):
    install("rllm-renderer-toy", source=plugin_source(listed=LISTED, deviations={"whitespace": "text is trimmed on purpose"}))
    with caplog.at_level(logging.INFO, logger="rllm_renderer"):
        resolve("toy/one", TemplateTokenizer(), parity="error")
    assert "'white space at the edges', as documented: text is trimmed on purpose" in caplog.text


@pytest.mark.usefixtures("toy")
def test_a_template_that_refuses_every_probe_is_said_in_both_modes():
    for mode in ("warn", "error"):
        tokenizer = TemplateTokenizer(lambda messages, mode=mode: f"not today, {mode}")
        with pytest.warns(RendererWarning, match=f"which refuses every probe: .*not today, {mode}"):
            resolve("toy/right", tokenizer, parity=mode)


@pytest.mark.usefixtures("toy")
def test_a_slow_tokenizer_is_said(monkeypatch):
    tokenizer = TemplateTokenizer()
    seconds = [0.0]
    monkeypatch.setattr(parity, "clock", lambda: seconds[0])
    render = tokenizer.apply_chat_template

    def slow(*arguments, **more):
        seconds[0] += 1.0
        return render(*arguments, **more)

    tokenizer.apply_chat_template = slow
    with pytest.warns(RendererWarning, match=r"within 10 s of rendering \(equal on \d+ of \d+ probes \(no time for \d+\)\)"):
        resolve("toy/right", tokenizer)


def test_an_option_that_the_template_doesnt_know_leaves_nothing_to_compare(install, caplog):
    pytest.importorskip("jinja2")
    install("rllm-renderer-toy", source=plugin_source(listed=LISTED, options=["thinking"]))
    with caplog.at_level(logging.INFO, logger="rllm_renderer"):
        resolve("toy/one", TemplateTokenizer(), thinking=True, parity="error")
    assert "can't be compared with the chat template: thinking=True" in caplog.text
