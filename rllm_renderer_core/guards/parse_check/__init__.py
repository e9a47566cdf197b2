"""A parsed completion accounts for every sampled id, once and in order, and a call that is OK is what was sampled.

Parsers lose text, move it and change values: ``<parameter=zip>\\n010\\n</parameter>`` becomes the number 10 where the tool
declares a string, and of ``why</think>A </think> B`` the ``A`` is in neither the reasoning nor the content.
"""

from .checking import ParseCheck as ParseCheck
