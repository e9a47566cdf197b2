"""Plugins that bridge and parse by this distribution's classes are pinned together with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rllm_renderer_core import PinMismatchError, select_backend

TEMPLATE = "rllm-renderer-template"
QWEN = "Qwen/Qwen3-8B"


@pytest.mark.parametrize("backend", ["tinker", "tml"])
def test_a_pin_notices_other_sources_of_the_bridge_and_another_version(backend):
    pytest.importorskip(f"rllm_renderer_{backend}")
    here = select_backend(QWEN, backend=backend)
    assert select_backend(QWEN, pin=here) == here
    pin = replace(here, upstream={**here.upstream, TEMPLATE: "0.0.9"}, sources={**here.sources, TEMPLATE: "0" * 16})
    with pytest.raises(PinMismatchError, match=f"(?s)upstream.{TEMPLATE}: .*sources.{TEMPLATE}: "):
        select_backend(QWEN, pin=pin)
