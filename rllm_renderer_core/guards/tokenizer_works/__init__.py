"""A tokenizer that changes text, spells its special tokens out or lacks a method is refused before it renders anything.

``AutoTokenizer`` 5.5 loads DeepSeek-V3's files as ``LlamaTokenizer``, which encodes ``a b`` without the blank; and with
``split_special_tokens=True`` a tokenizer makes six ids of ``<|im_end|>``, none of which is the stop.
"""

from .check import check_tokenizer as check_tokenizer
from .check import lacking as lacking
