"""``rllm-renderer plugins``: what is installed, and in which state."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.console import RenderableType
from rich.text import Text

from ..output import not_installed, show, show_json, table
from ..wording import fix_in_flags

if TYPE_CHECKING:
    from rllm_renderer_core.plugin.hooks import PluginInfo

STYLES = {"loaded": "green", "found": "green", "disabled": "yellow"}
"""States without a style of their own are faults."""
FAULTS = frozenset({"broken", "incompatible", "duplicate"})


@click.command("plugins")
@click.option("--check", is_flag=True, help="Import each plugin and call its hook.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(check: bool, as_json: bool) -> None:
    """List all plugins with their states.

    Reads metadata alone and imports no plugin, unless --check is given; exit status 1 where --check finds one that can't be
    used.
    """
    from rllm_renderer_core.plugin.discovery import plugins
    from rllm_renderer_core.plugin.distributions import KNOWN_PLUGINS, install_command
    from rllm_renderer_core.plugin.hooks import PluginInfo

    installed = plugins(check=check)
    present = {plugin.distribution for plugin in installed}
    absent = {name: distribution for name, distribution in KNOWN_PLUGINS.items() if distribution not in present}
    if as_json:
        missing = [PluginInfo(name, dist, "", "not installed", install_command(dist)) for name, dist in absent.items()]
        show_json([asdict(plugin) for plugin in (*installed, *missing)])
    else:
        columns = ("plugin", "state", "distribution", "backends", "location, or what is wrong")
        places = {os.path.dirname(plugin.location) for plugin in installed}
        page: list[RenderableType] = [Text("no plugin is installed", "yellow")]
        if installed:
            page = [table(columns, [_row(plugin, shows_place=len(places) > 1) for plugin in installed])]
        if len(places) == 1:
            page.append(Text(f"all in {places.pop()}", "dim"))
        show(*page, *not_installed([*absent.items()]))
    if check and any(plugin.state in FAULTS for plugin in installed):
        raise SystemExit(1)


def _row(plugin: PluginInfo, *, shows_place: bool) -> tuple[str | Text, ...]:
    error = "; ".join(line.strip() for line in fix_in_flags(plugin.error or "").splitlines())
    return (
        plugin.name,
        Text(plugin.state, STYLES.get(plugin.state, "bold red")),
        f"{plugin.distribution} {plugin.version}".rstrip(),
        ", ".join(plugin.backends) or "-",
        error or (plugin.location if shows_place else ""),
    )
