"""``rllm-renderer doctor``: what is wrong with this environment, and how to mend it."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.console import RenderableType
from rich.text import Text

from ..commands.plugins import STYLES
from ..options import load_tokenizer, tokenizer_option
from ..output import show, show_json, table


@click.command("doctor", short_help="Look for what is wrong with this environment.")
@click.argument("model", required=False)
@tokenizer_option
@click.option("--no-imports", is_flag=True, help="Don't import what the plugins wrap (which may take long, with torch).")
@click.option("--traceback", "with_traces", is_flag=True, help="Show where each error was raised.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: str | None, tokenizer: str | None, no_imports: bool, with_traces: bool, as_json: bool) -> None:
    """Check Python, the core, plugins, what they wrap, and the environment.

    With MODEL, its renderer is built too and each of its methods tried; --tokenizer PATH where MODEL isn't its folder or hub
    name. Exit status 1 where something is wrong.
    """
    from .checkup import examine

    loaded = load_tokenizer(tokenizer or str(model)) if model or tokenizer else None
    checked = examine(imports=not no_imports, model=model, tokenizer=loaded)
    if as_json:
        page_of = asdict(checked)
        if not with_traces:
            page_of["findings"] = [{k: v for k, v in finding.items() if k != "trace"} for finding in page_of["findings"]]
        show_json({**page_of, "ok": not checked.problems})
    else:
        variables = "  ".join(f"{name}={value}" for name, value in checked.environment.items())
        rows = []
        for plugin in checked.plugins:
            wrapped = checked.upstream[plugin.name].items()
            wraps = ", ".join(f"{name} {version or 'not installed'}" for name, version in wrapped) or "-"
            state = Text(plugin.state, STYLES.get(plugin.state, "bold red"))
            rows.append((plugin.name, state, f"{plugin.distribution} {plugin.version}", wraps))
        page: list[RenderableType] = [
            Text(
                f"Python {checked.python}, rllm-renderer-core {checked.core}, {variables or 'no RLLM_RENDERER_ variable set'}"
            ),
            table(("plugin", "state", "distribution", "wraps"), rows) if rows else Text("no plugin installed", "yellow"),
        ]
        if checked.literal_text:
            able = ", ".join(name if can == "yes" else f"{name} ({can})" for name, can in checked.literal_text.items())
            page.append(Text(f"marker_text='literal': {able}; proven when a renderer is resolved", "dim"))
        for finding in checked.findings:
            kind = ("problem", "bold red") if finding.problem else ("note", "yellow")
            page.append(Text.assemble(kind, f": {finding.what}", ("\n  fix: " + finding.fix if finding.fix else "", "bold")))
            if with_traces and finding.trace:
                page.append(Text("".join(f"  {line}\n" for line in finding.trace.splitlines()).rstrip("\n"), "dim"))
        count = len(checked.problems)
        page.append(
            Text(f"{count} problem{'s' if count > 1 else ''}", "bold red") if count else Text("nothing is wrong", "bold green")
        )
        show(*page)
    if checked.problems:
        raise SystemExit(1)
