"""``rllm-renderer verify MODEL``: a renderer against the model's chat template, or against another backend, before a run."""

from __future__ import annotations

from typing import Any, TextIO

import click
from rich.console import RenderableType
from rich.text import Text

from ..files import read_talks
from ..options import load_tokenizer, resolve_options, tokenizer_option
from ..output import progress, show, show_json, table
from ..wording import BadInput

FIRST_NAMES, FIRST_DIFFERENCES = 3, 3
"""Of conversations with the same outcome, so many are named; of those that differ, so many are shown with their ids."""

STYLES = {
    "equal": "green",
    "agrees": "green",
    "differs": "bold red",
    "the renderer refuses": "yellow",
    "the renderer declines": "yellow",
}


@click.command("verify", short_help="Compare a renderer's ids with the model's chat template.")
@click.argument("model")
@tokenizer_option
@click.option(
    "--template", type=click.File(encoding="utf-8"), help="The chat template to compare with; the tokenizer's own if left out."
)
@click.option("--against", metavar="BACKEND", help="Compare with this backend (or BACKEND:RENDERER) instead of the template.")
@click.option("--messages", metavar="FILE", help="Compare the conversations of this JSONL file, not the built-in ones.")
@resolve_options
@click.option("--all", "everything", is_flag=True, help="Show each conversation, bridge and difference.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    model: str,
    tokenizer: str | None,
    template: TextIO | None,
    against: str | None,
    messages: str | None,
    options: dict[str, Any],
    everything: bool,
    as_json: bool,
) -> None:
    """Compare what serves MODEL with its chat template: ids of whole conversations, and bridges between turns.

    What a bridge must append is proven by experiment on the template. A renderer that refuses a conversation, or declines a
    bridge, is no difference: it never gives wrong ids. Exit status 1 where ids differ, 2 where nothing could be compared.

    With --messages, each line of FILE is a conversation: a JSON list of messages, or an object with "messages" and "tools".
    """
    from rllm_renderer_template.parity import comparison
    from rllm_renderer_template.parity.bridges import BridgeResult, bridges_differ, compare_bridges
    from rllm_renderer_template.parity.probes import PROBES, Probe
    from rllm_renderer_template.parity.report import ParityReport, ProbeResult

    from rllm_renderer_core.normal_form.messages import normalize_messages
    from rllm_renderer_core.normal_form.tokenizer import chat_template
    from rllm_renderer_core.resolving.resolver import resolve

    probes = PROBES
    if messages is not None:  # before a tokenizer is loaded; what ends with an assistant message is rendered as it is
        probes = tuple(
            Probe(talk.where, tuple(talk.messages), normalize_messages(talk.messages)[-1]["role"] != "assistant", talk.tools)
            for talk in read_talks(messages, by_line=True)
        )
    loaded = load_tokenizer(tokenizer or model)
    if template is not None:
        try:
            loaded.chat_template = template.read()
        except UnicodeDecodeError as error:
            raise BadInput(f"{template.name} isn't UTF-8 text: {error.reason} at byte {error.start}") from error
    renderer = resolve(model, loaded, **{**options, "parity": "off"})
    name = f"{renderer.backend}:{renderer.name}"
    known = {}
    if against is not None:
        backend, _, other = against.partition(":")
        asked = {key: options[key] for key in ("thinking", "thinking_retention", "chat_template_kwargs") if key in options}
        reference = resolve(model, loaded, backend=backend, renderer=other or None, parity="off", **asked)
        what = f"{reference.backend}:{reference.name}"
        expected = comparison.renderer_ids(reference)
    elif renderer.by_template:
        raise BadInput(f"{model} is served by its chat template itself: name a renderer, or compare with one by --against")
    elif chat_template(loaded) is None:
        raise BadInput("the tokenizer has no chat template: give --template FILE, or compare with a backend by --against")
    else:
        reference, what = comparison.template_renderer(renderer.query), comparison.TEMPLATE_TEXT
        known = renderer.deviations()
        expected = comparison.renderer_ids(reference)
        if messages is None:
            expected = comparison.template_ids(renderer.query)
    budget = comparison.Budget(float("inf"))
    results: list[ProbeResult] = []
    bridges: list[BridgeResult] = []
    with progress(f"{name} against {what}") as say:
        ids = comparison.renderer_ids(renderer)
        for result in comparison.compare(ids, expected, loaded, deviations=known, budget=budget, probes=probes):
            results.append(result)
            say(f"{len(results)} of {len(probes)} conversations")
        for bridge in compare_bridges(renderer, reference, budget=budget) if renderer.has_bridge and messages is None else ():
            bridges.append(bridge)
            say(f"bridge {len(bridges)}")
    report = ParityReport(model, name, what, tuple(results))
    if not report.accepted:
        why = next((f": {result.reason}" for result in results if result.reason), "")
        raise BadInput(f"nothing could be compared: {what} refuses all of the {len(results)} conversations{why}")
    ok = not report.differences and not bridges_differ(bridges)
    doubt = "" if ok or against is not None else _doubt(renderer, report, loaded, options)
    if as_json:
        value = {"resolution": renderer.resolution.to_dict(), "ok": ok, "doubt": doubt, "parity": report.to_dict()}
        show_json({**value, "bridges": [bridge.to_dict() for bridge in bridges]})
    else:
        without = "no bridge" if messages is None else "bridges aren't compared"
        show(*_page(report, bridges, ok, without=without, everything=everything, doubt=doubt))
    if not ok:
        raise SystemExit(1)


def _doubt(renderer: Any, report: Any, tokenizer: Any, options: dict[str, Any]) -> str:
    """Why the tokenizer may not be this model's: another renderer writes what its template says, or nothing is equal."""
    from rllm_renderer_core.errors import RendererError
    from rllm_renderer_core.resolving.resolver import resolve

    how = "rllm-renderer detect --tokenizer PATH shows which renderers fit it"
    try:
        proven = resolve(report.model, tokenizer, **{**options, "parity": "prefer"})
    except RendererError:
        proven = renderer
    if proven.resolution.match == "parity" and (proven.backend, proven.name) != (renderer.backend, renderer.name):
        other = f"{proven.backend}:{proven.name}"
        whose = f"it isn't the tokenizer of {report.model}, or that is the renderer of {report.model}"
        return f"the tokenizer's chat template is what {other} writes: {whose}; {how}"
    if report.equal:
        return ""
    return f"no conversation is equal: it isn't the tokenizer of {report.model}, or not its renderer; {how}"


def _page(report: Any, bridges: list[Any], ok: bool, *, without: str, everything: bool, doubt: str) -> list[RenderableType]:
    page: list[RenderableType] = [Text.assemble((report.renderer, "bold"), f" for {report.model} against {report.reference}")]
    page += [Text(doubt, "bold red")] if doubt else []
    named = [(result.probe, result) for result in report.results]
    page.append(_table("conversation", named, everything))
    if bridges:
        page += ["", _table("bridge to", [(bridge.shape, bridge) for bridge in bridges], everything)]
    named += [(f"bridge to {bridge.shape}", bridge) for bridge in bridges]
    differing = [(name, result) for name, result in named if result.difference is not None]
    if not everything:  # what a backend documents is no surprise
        differing = [(name, result) for name, result in differing if result.outcome.value == "differs"]
    for name, result in differing if everything else differing[:FIRST_DIFFERENCES]:
        page += ["", *_context(name, result.difference, report.reference, report.renderer)]
    hidden = 0 if everything else len(differing) - FIRST_DIFFERENCES
    if hidden > 0:
        page += ["", Text(f"{hidden} more differ: --all shows their ids", "dim")]
    agreed = sum(bridge.outcome.value == "agrees" for bridge in bridges)
    last = f"{report.summary()}; " + (f"{agreed} of {len(bridges)} bridges agree" if bridges else without)
    page += ["", Text(f"{last}: {'nothing differs' if ok else 'ids differ'}", "bold green" if ok else "bold red")]
    return page


def _table(what: str, named: list[tuple[str, Any]], everything: bool) -> RenderableType:
    """A row for each conversation, or for all that have the same outcome for the same reason."""
    if everything:
        return table((what, "ids", "why"), [(name, _outcome(result), result.reason or "") for name, result in named])
    groups: dict[tuple[str, str], list[tuple[str, Any]]] = {}
    for name, result in named:
        groups.setdefault((result.outcome.value, result.reason or ""), []).append((name, result))
    rows = []
    for (_, reason), alike in groups.items():
        names = ", ".join(name for name, _ in alike[:FIRST_NAMES])
        more = f", and {len(alike) - FIRST_NAMES} more" if len(alike) > FIRST_NAMES else ""
        rows.append((str(len(alike)), _outcome(alike[0][1]), f"{names}{more}{f': {reason}' if reason else ''}"))
    return table(("", "ids", what), rows)


def _outcome(result: Any) -> Text:
    text = result.outcome.value
    return Text(text, STYLES.get(text, "dim"))


def _context(title: str, difference: Any, reference: str, renderer: str) -> list[RenderableType]:
    """Both sides around the first id that differs, with the ids from there on."""
    rows = [
        (f"  {reference}", repr(difference.expected), " ".join(map(str, difference.expected_ids)) or "(ends)"),
        (f"  {renderer}", repr(difference.got), " ".join(map(str, difference.got_ids)) or "(ends)"),
    ]
    head = Text(f"{title}: id {difference.index} differs", "bold red")
    return [head, table(("  who", "text around it", "ids from there on"), rows)]
