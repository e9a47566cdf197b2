import os

from training.renderer import made_up as _made_up  # noqa: F401

if os.environ.get("STANDIN_TRAINING") == "broken":
    from training.renderer import broken as _broken  # noqa: F401
if os.environ.get("STANDIN_TRAINING") == "exits":
    raise SystemExit(3)

from training.renderer import override as _override  # noqa: F401
