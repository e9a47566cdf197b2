"""tml-renderers on real tokenizers; without upstream, nothing here runs."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("tml_renderers") is None or importlib.util.find_spec("rllm_renderer_tml") is None:
    collect_ignore_glob = ["test_*.py"]
