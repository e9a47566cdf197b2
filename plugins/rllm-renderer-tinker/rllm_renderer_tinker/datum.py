"""A training sequence of ``rllm_renderer_training.supervised`` as Tinker trains on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rllm_renderer_training import SupervisedExample


def to_datum(example: SupervisedExample, *, max_length: int | None = None, reduction: Literal["none", "mean"] = "none") -> Any:
    """The example as a ``tinker.Datum``, shifted and cut as ``tinker_cookbook.supervised`` does it.

    Args:
        example: With images, its ``multi_modal_data`` is the ``tinker.ModelInput`` of the last prompt, whose image chunks are
            kept; its placeholders in ``token_ids`` are those chunks' positions.
        max_length: Ids beyond it are cut off at the end.
        reduction: ``"mean"`` makes the weights of the datum sum to 1.

    Raises:
        ValueError: ``multi_modal_data`` isn't a ``tinker.ModelInput``, or doesn't fit the ids: the example isn't of this
            plugin's renderer.
    """
    import tinker
    import torch
    from tinker_cookbook.supervised.common import datum_from_model_input_weights

    chunks: list[Any] = []
    if example.multi_modal_data is None:
        chunks.append(tinker.EncodedTextChunk(tokens=example.token_ids))
    else:
        prompt = example.multi_modal_data
        if not isinstance(prompt, tinker.ModelInput) or prompt.length > len(example.token_ids):
            raise ValueError("the example's multi_modal_data isn't the tinker.ModelInput of its prompt")
        _refuse_another(prompt, example.token_ids)
        chunks += [*prompt.chunks, tinker.EncodedTextChunk(tokens=example.token_ids[prompt.length :])]
    weights = torch.tensor(example.weights, dtype=torch.float32)
    return datum_from_model_input_weights(tinker.ModelInput(chunks=chunks), weights, max_length, reduction)


def _refuse_another(prompt: Any, ids: list[int]) -> None:
    """Raises where a text chunk of the prompt isn't what the example has there."""
    at = 0
    for chunk in prompt.chunks:
        tokens = getattr(chunk, "tokens", None)
        if tokens is not None and list(tokens) != ids[at : at + len(tokens)]:
            raise ValueError(f"multi_modal_data has other ids than the example from position {at} on")
        at += chunk.length
