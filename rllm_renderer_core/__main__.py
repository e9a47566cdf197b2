"""``python -m rllm_renderer_core``: the command line, for where the console script isn't on the path."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
