"""rllm-renderer-training in verl's layouts: ``to_verl`` for its RL trainer, ``SupervisedDataset`` for its SFT trainer."""

from __future__ import annotations

from .batch import VerlBatch as VerlBatch
from .batch import to_verl as to_verl
from .dataset import SupervisedDataset as SupervisedDataset

__version__ = "0.1.0"

__all__ = ["SupervisedDataset", "VerlBatch", "to_verl"]
