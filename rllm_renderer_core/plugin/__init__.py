"""What a plugin author imports: the hooks, ``Backend``, and the three things that ``covers`` may answer.

A plugin is a module named by an entry point of the group ``rllm_renderer``::

    [project.entry-points.rllm_renderer]
    mymodel = "rllm_renderer_mymodel"

Importing it must be light: no torch, no transformers, no upstream package. Those are for ``create``.
"""

from .backend import Backend as Backend
from .backend import Coverage as Coverage
from .backend import Match as Match
from .backend import Query as Query
from .backend import RendererTraits as RendererTraits
from .backend import Unavailable as Unavailable
from .backend import in_probe as in_probe
from .backend import rendering_probes as rendering_probes
from .hooks import GROUP as GROUP
from .hooks import Detected as Detected
from .hooks import Judgement as Judgement
from .hooks import Registered as Registered
from .hooks import hookimpl as hookimpl
