"""A bridge is begun only behind a completion that is whole.

Upstream bridges close whatever they get: ``<think>let me<|im_end|>`` followed by a user's message would leave a thought that
never closes in the history, and ``<tool_call>{"name": "lo`` half a call. A stop that was sampled ends a call, whatever the
call looks like; a completion without one was cut off, or its engine left the stop out: then a call in it must be whole.
"""

from .unfinished import TurnEndGuard as TurnEndGuard
