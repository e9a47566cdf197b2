"""What a backend returns has the types that it declares: text for ids fails here, and not much later in a trainer.

``np.array([151644, 872])`` becomes a list of ``int``; ``[151644, True]``, ``None``, or a ``sampled_mask`` of the wrong length
is a ``ContractError`` that names the backend.
"""

from .checks import checked_ids as checked_ids
from .checks import checked_stop_strings as checked_stop_strings
from .checks import checked_tokens as checked_tokens
