"""``rllm-renderer plugins``: what is installed, and in which state."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.text import Text

from ..output import show, show_json, table

STYLES = {"loaded": "green", "found": "green", "disabled": "yellow", "not installed": "dim"}
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
    from rllm_renderer_core.plugin.distributions import CORE_DISTRIBUTION, KNOWN_PLUGINS, install_command
    from rllm_renderer_core.plugin.metadata import PluginInfo
    from rllm_renderer_core.version import __version__

    found = plugins(check=check)
    present = {each.distribution for each in found}
    built_in = PluginInfo("chat-template", CORE_DISTRIBUTION, __version__, "loaded", backends=("chat-template",))
    absent = [
        PluginInfo(name, distribution, "", "not installed", install_command(distribution))
        for name, distribution in KNOWN_PLUGINS.items()
        if distribution not in present
    ]
    listed = [*found, built_in, *absent]
    if as_json:
        show_json([asdict(each) for each in listed])
    else:
        rows = [
            (
                each.name,
                Text(each.state, STYLES.get(each.state, "bold red")),
                f"{each.distribution} {each.version}".rstrip(),
                ", ".join(each.backends) or "-",
                "; ".join(line.strip() for line in (each.error or "").splitlines()) or each.location or "built in",
            )
            for each in listed
        ]
        show(table(("plugin", "state", "distribution", "backends", "location, or what is wrong"), rows))
    if check and any(each.state in FAULTS for each in found):
        raise SystemExit(1)
