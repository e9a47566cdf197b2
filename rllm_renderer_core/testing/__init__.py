"""For those who write plugins, and for the core's own tests. Needs ``pip install 'rllm-renderer-core[testing]'``.

- :func:`fake_distribution`: a plugin "installed" for the length of a ``with`` block, real metadata and all.
"""

from .distributions import fake_distribution

__all__ = ["fake_distribution"]
