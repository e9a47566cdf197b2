"""Spans between special tokens are encoded in one call: a repair, for renderers that ask for it (``encodes_spans_apart``).

Upstreams that encode a role's header and the text behind it in separate calls get other BPE merges where a text begins with
white space: on Qwen3 ``assistant\\n`` + ``\\n\\nfour`` are the ids [77091, 198, 271, 34024], and the chat template's
``assistant\\n\\n\\nfour`` are [77091, 1406, 34024].
"""

from .joined import SpanEncoding as SpanEncoding
