"""Kinds of fault in a plugin, each method's: another model is resolved as if it weren't there; explain and doctor name it."""

from __future__ import annotations

import textwrap

import pytest
from toy_template import TemplateTokenizer, plugin_source

from rllm_renderer_core import RendererError, explain, resolve

pytest.importorskip("click")
pytestmark = [pytest.mark.usefixtures("no_plugins"), pytest.mark.filterwarnings("ignore::rllm_renderer_core.RendererWarning")]

SOURCE = '''
import time
import toy
from rllm_renderer_core import Backend, Coverage, Match, RenderedTokens, hookimpl
@IMPORT@

class Renderer(toy.ToyRenderer):
    """The toy's, but for one method."""
    def render_ids(self, messages, **more):
        return toy.ToyRenderer.render(self, messages, **more).token_ids
    def bridge_to_next_turn(self, p, c, new, **more):
        return toy.ToyRenderer().bridge_to_next_turn(p, c, new, **more)
@RENDERER@

class Odd(Backend):
    name = "odd"
    priority = 90
    def covers(self, query):
        if query.renderer is not None:
            return Coverage("odd", Match.NAMED, True, "named") if query.renderer == "odd" else None
        return Coverage("odd", Match.EXACT, True, "listed") if query.model == "odd/model" else None
    def create(self, query, coverage):
        return Renderer(query.tokenizer)
    def renderer_names(self):
        return ["odd"]
    def candidates(self, query):
        return [Coverage("odd", Match.PARITY, True, "tried")]
@BACKEND@

@hookimpl
def rllm_renderer_backends():
    @HOOK@
    return [Odd()]
'''

RAISES, EXITS, PRINTS, SLEEPS = "raise ValueError('oops')", "raise SystemExit(3)", "print('hello')", "time.sleep(0.2)"
SIGNATURES = {
    "covers": "self, query",
    "create": "self, query, coverage",
    "renderer_names": "self",
    "candidates": "self, query",
    "deviations": "self, coverage",
    "parsing": "self, query, coverage",
    "render": "self, messages, **more",
    "render_ids": "self, messages, **more",
    "parse_response": "self, token_ids, **more",
    "get_stop_token_ids": "self",
    "bridge_to_next_turn": "self, p, c, new, **more",
}
OF_BACKEND = ("covers", "create", "renderer_names", "candidates", "deviations", "parsing")

FAULTS = {
    ("import", RAISES): "ValueError: oops",
    ("import", EXITS): "SystemExit: 3",
    ("import", "import module_that_is_gone"): "module 'module_that_is_gone' is missing",
    ("import", PRINTS): "its import prints 'hello'",
    ("import", SLEEPS): "its import took 0.",
    ("hook", RAISES): "ValueError: oops",
    ("hook", EXITS): "SystemExit: 3",
    ("hook", "return None"): "the hook returned None",
    ("hook", "return 'odd'"): "must return a list of Backend, not str",
    ("hook", "return [Odd]"): "must return Backend instances",
    ("hook", PRINTS): "its import prints 'hello'",
    ("name", "None"): "has no name",
    ("priority", "'high'"): "needs an int as priority, not 'high'",
    ("options", "'thinking'"): "options of backend 'odd' must be a set or tuple of texts",
    ("covers", RAISES): "covers raised ValueError: oops",
    ("covers", EXITS): "covers raised SystemExit: 3",
    ("covers", "return 'odd'"): "must return Coverage, Unavailable or None, not 'odd'",
    ("covers", "return Coverage('odd', 3, True, 'r')"): "Coverage.match must be a Match, not 3",
    ("covers", PRINTS): "covers prints 'hello'",
    ("covers", SLEEPS): "covers took 0.",
    ("renderer_names", RAISES): "renderer_names raised ValueError: oops",
    ("renderer_names", "return None"): "renderer_names raised TypeError",
    ("renderer_names", "return [3]"): "must give texts, not [3]",
    ("candidates", RAISES): "candidates raised ValueError: oops",
    ("candidates", "return ['odd']"): "must return Coverage, not 'odd'",
    ("deviations", RAISES): "deviations raised ValueError: oops",
    ("deviations", "return None"): "deviations raised TypeError",
    ("parsing", EXITS): "parsing raised SystemExit: 3",
    ("create", RAISES): "can't build 'odd': ValueError: oops",
    ("create", EXITS): "can't build 'odd': SystemExit: 3",
    ("create", "return None"): "created a NoneType, which isn't a Renderer",
    ("render", EXITS): "can't render these messages: SystemExit: 3",
    ("render", "return [1, 2]"): "returned list instead of RenderedTokens from render",
    ("render", "return RenderedTokens([1, 2], [0], None)"): "message_indices has 1 entries for 2 ids",
    ("render", "return RenderedTokens([1, 2], [0, 7], None)"): "message_indices reach from 0 to 7",
    ("render", "return RenderedTokens([1, 2])"): "render and render_ids give other ids",
    ("render_ids", RAISES): "can't render these messages: ValueError: oops",
    ("render_ids", "return None"): "returned None from render_ids",
    ("render_ids", "return {'input_ids': [1]}"): "returned from render_ids what isn't a list of ids",
    ("render_ids", "return 'text'"): "returned from render_ids what isn't a list of ids",
    ("parse_response", RAISES): "parse_response: ValueError: oops",
    ("parse_response", EXITS): "parse_response: SystemExit: 3",
    ("parse_response", "return ('text', [])"): "parse_response",
    ("get_stop_token_ids", RAISES): "can't build 'odd': ValueError: oops",
    ("get_stop_token_ids", "return None"): "returned None from get_stop_token_ids",
    ("get_stop_token_ids", "return ['<end>']"): "returned from get_stop_token_ids what isn't a list of ids",
    ("bridge_to_next_turn", RAISES): "bridge_to_next_turn: ValueError: oops",
    ("bridge_to_next_turn", EXITS): "bridge_to_next_turn: SystemExit: 3",
    ("bridge_to_next_turn", "return [1, 2]"): "returned list instead of RenderedTokens",
    ("bridge_to_next_turn", "return RenderedTokens([*c, *p, 1])"): "doesn't start with the prompt and completion",
    ("bridge_to_next_turn", "return RenderedTokens([*p, *c])"): "adds nothing to the prompt and completion",
}
"""Where the fault is and what it is, to what is said of it."""

DOCTOR_ALONE = ("import", PRINTS), ("hook", PRINTS), ("covers", PRINTS), ("import", SLEEPS), ("covers", SLEEPS)
"""What an answer doesn't show."""


def source(place, body):
    def method(name):
        return f"    def {name}({SIGNATURES[name]}):\n        {body}\n        return super().{name}({_passed(name)})"

    blocks = {"IMPORT": "", "RENDERER": "    pass", "BACKEND": "", "HOOK": "pass"}
    if place in ("import", "hook"):
        blocks[place.upper()] = body
    elif place in ("name", "priority", "options"):
        blocks["BACKEND"] = f"    {place} = {body}"
    elif place in OF_BACKEND:
        blocks["BACKEND"] = f"class Base(Odd):\n    pass\n\nclass Odd(Base):\n{method(place)}"
    else:
        blocks["RENDERER"] = method(place)
    text = SOURCE
    for name, block in blocks.items():
        text = text.replace(f"@{name}@", block)
    return text


def _passed(name):
    return ", ".join(SIGNATURES[name].split(", ")[1:])


@pytest.fixture
def doctor(monkeypatch):
    """Everything that doctor says in this process, in one text."""
    from rllm_renderer_cli.doctor import asking, checkup

    from rllm_renderer_core.plugin import discovery

    monkeypatch.setattr(checkup, "find", lambda: discovery.find())
    monkeypatch.setattr(checkup, "_distributions", lambda names: {})
    monkeypatch.setattr(asking, "SLOW_SECONDS", 0.1)

    def doctor(model=None, tokenizer=None):
        checked = checkup.examine(imports=False, model=model, tokenizer=tokenizer)
        return "\n".join(f"{each.what} {each.fix}" for each in checked.findings)

    return doctor


@pytest.mark.parametrize(("place", "body"), FAULTS, ids=lambda text: textwrap.shorten(text, 40))
def test_a_fault_stops_nobody_else_and_is_named(install, doctor, place, body):
    said, tokenizer = FAULTS[place, body], TemplateTokenizer()
    install("rllm-renderer-good", source=plugin_source("right", name="good", priority=50, listed={"toy/right": "right"}))
    install("rllm-renderer-odd", source=source(place, body))
    report = doctor("odd/model", tokenizer)
    assert "odd" in report and said in report

    listed = resolve("toy/right", tokenizer)
    assert (listed.backend, listed.resolution.match) == ("good", "exact")
    if place in SIGNATURES:  # a search by the template tries its renderer too; what isn't loaded is out of it
        assert resolve("nobody/knows", tokenizer).resolution.match == "parity"
    with pytest.raises(RendererError, match=r"no backend has a renderer for|renderer='typo' of backend 'odd'"):
        resolve("x", tokenizer, renderer="typo")

    told = str(explain("nobody/knows" if place == "candidates" else "odd/model", tokenizer))
    assert (place, body) in DOCTOR_ALONE or place == "renderer_names" or said in told


def test_no_fault_of_the_toy_is_none(install, doctor):
    install("rllm-renderer-odd", source=source("hook", "pass"))
    assert doctor("odd/model", TemplateTokenizer()) == doctor()
    assert "odd wins\n" in str(explain("odd/model", TemplateTokenizer()))
