"""Prints where the requirements file of the cookbook is: ``pip install -r "$(python -m rllm_renderer_fireworks)"``."""

from .cookbook import REQUIREMENTS

print(REQUIREMENTS)  # noqa: T201
