"""Rows of the table: each does what it says on the installed version, and none is left that nothing needs."""

import pytest
import shapes
import tinker_oracle as oracle
from rllm_renderer_tinker.corrections import CORRECTIONS
from rllm_renderer_tinker.factory import build
from rllm_renderer_tinker.renderer import TinkerRenderer

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


def differing(case, rows):
    renderer = TinkerRenderer(build(case.renderer, oracle.tokenizer(case.model)), case.renderer, oracle.tokenizer(case.model),
                              corrections=rows)  # fmt: skip
    out = set()
    whole = [(n, m, o) for n, m, o in oracle.conversations() if o or n in oracle.CLOSED]
    for tools, conversations in ((None, [*whole, *EXTRA]), (shapes.TOOLS, [whole[0], *EXTRA])):
        for name, messages, opener in conversations:
            expected = oracle.expected_ids(case, messages, tools, opener)
            if expected is None:
                continue
            try:
                same = renderer.render_ids(messages, tools=tools, add_generation_prompt=opener) == expected
            except Exception:
                same = False
            if not same:
                out.add((name, bool(tools)))
    return out


EXTRA = [
    ("edges", [{"role": "system", "content": " s "}, shapes.user(" u "), shapes.TEXT, shapes.user(" v\n")], True),
    ("edges of a result", [shapes.user("u"), shapes.ONE_CALL, {**shapes.ONE, "content": " r "}], True),
    ("no system text", [shapes.user("u")], True),
    ("developer", [{"role": "developer", "content": "d"}, shapes.user("u")], True),
]


REFUSED = {("nemotron3", "has no developer's role", "developer")}
"""What a row refuses although upstream happens to write it as the template does: no wrong ids, only fewer conversations."""


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_each_row_is_needed_and_none_does_harm(record_property):
    """Taking a row out makes some conversation differ that doesn't with it; what this version doesn't need is reported."""
    needed = {row.why for row in CORRECTIONS if row.why in UNTESTED}
    report = []
    for case in oracle.CASES:
        from rllm_renderer_tinker import catalog

        if case.renderer not in catalog.builtin_names():
            continue
        rows = [row for row in CORRECTIONS if row.applies_to(case.renderer)]
        with_all = differing(case, CORRECTIONS)
        for row in rows:
            without = differing(case, [each for each in CORRECTIONS if each is not row])
            refused = {each for each in with_all - without if (case.renderer, row.why, each[0]) in REFUSED}
            assert with_all - refused <= without, f"{case}: {row.why!r} does harm"
            if without - with_all:
                needed.add(row.why)
            else:
                report.append(f"{case}: {row.why}: {SUPERSEDED}")
    record_property("not needed in this version", "\n".join(report))
    from importlib.metadata import version

    if version("tinker-cookbook") == "0.4.3":
        assert {row.why for row in CORRECTIONS if row.families != ("qwen3_8",)} <= needed | {"trims no user's text"}
