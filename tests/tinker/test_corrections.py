"""Rows of the table: each does what it says on the installed version, and none is left that nothing needs."""

import pytest
import shapes
import tinker_oracle as oracle
from rllm_renderer_tinker.corrections import CORRECTIONS
from rllm_renderer_tinker.factory import build
from rllm_renderer_tinker.renderer import TinkerRenderer
from sampling import one_each

UNTESTED = {
    "has a block in every turn": "_preserve_thinking, which has no official template here",
    "knows results by a name": "silences a warning",
    "knows results by name and id": "silences two warnings",
    "has a system message besides the developer's": "silences a warning",
    "has no reasoning where it is off": "shown by the variants' tests",
    "has no reasoning": "llama3 differs from its template in its first message",
    "trims every text": "shown by the bridge for llama3",
}
SUPERSEDED = "upstream does it too, or another row's text has it"


DIFFERS, REFUSED, EQUAL = range(3)
"""What comes of a conversation, the worst first. Where the template refuses it, refusing it too is equal."""


def outcomes(case, rows):
    """Each conversation's name and whether it has tools, to what comes of it with these rows."""
    renderer = TinkerRenderer(build(case.renderer, oracle.tokenizer(case.model)), case.renderer, oracle.tokenizer(case.model),
                              corrections=rows)  # fmt: skip
    out = {}
    whole = [(n, m, o) for n, m, o in oracle.conversations() if o or n in oracle.CLOSED]
    for tools, conversations in (
        (None, [*whole, *EXTRA]),
        (shapes.TOOLS, [whole[0], *EXTRA]),
        ([shapes.LETTERS], [("letters", EXTRA[0][1], True)]),
    ):
        for name, messages, opener in conversations:
            expected = oracle.expected_ids(case, messages, tools, opener)
            try:
                ids = renderer.render_ids(messages, tools=tools, add_generation_prompt=opener)
            except Exception:  # upstreams refuse with types of their own
                ids = None
            if expected is None and ids is not None and name not in REFUSALS:
                continue  # where the template is stricter than it need be
            out[name, bool(tools)] = EQUAL if ids == expected else REFUSED if ids is None else DIFFERS
    return out


def said(content, **more):
    return {"role": "assistant", "content": content, **more}


DROPS = {"has no reasoning"}
"""Rows that leave out what the template refuses or leaves out in other places; the core says that it isn't shown."""
REFUSALS = ("no user", "no user, opener", "developer")
"""What a row may refuse as the template does."""
INLINE = said("<think>\nwhy\n</think>\n\nfour")
SYSTEM = {"role": "system", "content": "s"}
EXTRA = [
    ("edges", [{"role": "system", "content": " s "}, shapes.user(" u "), shapes.TEXT, shapes.user(" v\n")], True),
    ("edges of a result", [shapes.user("u"), shapes.ONE_CALL, {**shapes.ONE, "content": " r "}], True),
    ("no system text", [shapes.user("u")], True),
    ("developer", [{"role": "developer", "content": "d"}, shapes.user("u")], True),
    ("no user", [SYSTEM, said("four")], False),
    ("no user, opener", [SYSTEM, said("four")], True),
    ("an empty answer", [SYSTEM, shapes.user("u"), said(""), shapes.user("v")], True),
    ("reasoning in the text", [SYSTEM, shapes.user("u"), INLINE], False),
    (
        "reasoning in the text, in the history",
        [SYSTEM, shapes.user("u"), INLINE, shapes.user("v")],
        True,
    ),
]


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_each_row_is_needed_and_none_does_harm(record_property):
    """Taking a row out makes some conversation differ that doesn't with it; what this version doesn't need is reported."""
    needed = {row.why for row in CORRECTIONS if row.why in UNTESTED}
    report = []
    for case in one_each([case for case in oracle.here() if case in oracle.CASES], oracle.format_of):
        rows = [row for row in CORRECTIONS if row.applies_to(case.renderer)]
        with_all = outcomes(case, CORRECTIONS)
        for row in rows:
            without = outcomes(case, [each for each in CORRECTIONS if each is not row])
            worse = {each for each in with_all if with_all[each] is DIFFERS and without.get(each, EQUAL) is not DIFFERS}
            assert not worse or row.why in DROPS, f"{case}: {row.why!r} does harm"
            if any(without[each] < with_all.get(each, without[each]) for each in without):
                needed.add(row.why)
            else:
                report.append(f"{case}: {row.why}: {SUPERSEDED}")
    record_property("not needed in this version", "\n".join(report))
    from importlib.metadata import version

    if version("tinker-cookbook") == "0.4.3":
        assert {row.why for row in CORRECTIONS if row.families != ("qwen3_8",)} <= needed | {"trims no user's text"}
