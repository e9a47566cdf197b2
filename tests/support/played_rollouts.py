"""Rollouts that the exports to trainers are tested with, and what of them is trained."""

from __future__ import annotations

from rllm_renderer_training import Rollout
from toy import END, ToyRenderer, encode

from rllm_renderer_core.testing import wrap

OPENING = [{"role": "user", "content": "How many?"}]
LIDS = [{"role": "user", "content": "And lids?"}]
PAD = 0


def played():
    """Two rollouts: one of two turns and a declined bridge, whose stop was stripped; one of a turn, with an empty segment."""
    renderer = wrap(ToyRenderer())
    one = Rollout(renderer)
    one.begin(OPENING)
    one.record(encode("four"), [-0.1, -0.2, -0.3, -0.4], stop_reason=END)
    one.extend(LIDS)
    one.record([*encode("two"), END, END], [-1.0] * 5)
    one.extend(LIDS)  # declined: two stops
    one.record([*encode("one"), END], [-2.0] * 4)
    other = Rollout(renderer)
    other.begin([*OPENING, *LIDS])
    other.record([*encode("six"), END], [-3.0] * 4)
    other.rewrite(OPENING)
    return [one, other]


def trained(rollouts):
    """By segments that have any, the sampled ids whose log-probability is known, with it."""
    return [
        [
            (token, round(logprob, 5))
            for token, mine, logprob in zip(segment.token_ids, segment.sampled_mask, segment.logprobs, strict=True)
            if mine and logprob is not None
        ]
        for rollout in rollouts
        for segment in rollout.segments
        if segment.turns
    ]
