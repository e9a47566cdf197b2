"""``python -m rllm_renderer_cli``, for where the console script isn't on the path."""

from __future__ import annotations

import sys

from . import main

sys.exit(main())
