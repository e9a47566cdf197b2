"""``sampled_mask`` of a render begins where sampling begins, and ends with the stop: a repair of masks, never of ids.

Upstreams mark what the generation prompt supplies as if the model had sampled it: of Qwen3.5's ``<think>\\n`` + ``why</think>``
the first two ids are given; or the newline that the template writes behind ``<|im_end|>``.
"""

from .mask import SampledMask as SampledMask
