"""For those who write plugins, and for the core's own tests. Needs ``pip install 'rllm-renderer-core[testing]'``.

- ``RendererConformance``: subclass it, give it a ``renderer`` fixture, and pytest checks the whole contract.
- ``wrap``: a bare renderer under the core's contract, without a plugin around it.
- ``fake_distribution``: a plugin "installed" for the length of a ``with`` block, real metadata and all.
"""

import pytest

for module in ("bridging", "checks", "conformance", "parsing", "rendering"):
    pytest.register_assert_rewrite(f"{__name__}.{module}")

from .conformance import RendererConformance  # noqa: E402
from .distributions import fake_distribution  # noqa: E402
from .wrapping import wrap  # noqa: E402

__all__ = ["RendererConformance", "fake_distribution", "wrap"]
