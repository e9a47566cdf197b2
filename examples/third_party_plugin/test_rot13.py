"""The core's conformance kit over the plugin: what a third party's own tests begin with."""

from __future__ import annotations

import pytest
from rllm_renderer_rot13.renderer import Rot13Renderer
from rllm_renderer_template import SeamBridge

from rllm_renderer_core.testing import RendererConformance


@pytest.fixture
def renderer() -> Rot13Renderer:
    return Rot13Renderer()


class TestRot13(RendererConformance):
    oracle = SeamBridge
    reasoning = False
    examples = 5
