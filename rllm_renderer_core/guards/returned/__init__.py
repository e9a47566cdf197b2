"""What a backend returns has the types that it declares: text for ids fails here, and not much later in a trainer.

Upstreams return what an engine or a tensor gave them: ``np.array([151644, 872])`` becomes a list of ``int``, and ``[151644, True]``,
``None`` or a ``sampled_mask`` of one entry for two ids is a ``ContractError`` that names the backend.
"""

from .checks import checked_ids as checked_ids
from .checks import checked_stop_strings as checked_stop_strings
from .checks import checked_tokens as checked_tokens
