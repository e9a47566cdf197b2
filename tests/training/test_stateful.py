"""Generated rollouts: begin, record, extend, sync, rewrite and fork in any order, against a plain model of what must hold.

Some hundreds of steps; many thousands with ``--whole``.
"""

from __future__ import annotations

import json

import sampling
import toy
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rllm_renderer_training import Rollout
from toy import END, ToyRenderer

from rllm_renderer_core import RendererError
from rllm_renderer_core.testing import wrap

STEPS = sampling.how_many(800, 20_000)
PER_RUN = 20
RENDERER = wrap(ToyRenderer())
IDS = st.lists(
    st.one_of(
        st.sampled_from([END, END, toy.THINK, toy.UNTHINK, toy.CALL, toy.ARGS, toy.UNCALL, toy.NEWLINE]), st.integers(90, 400)
    ),
    max_size=12,
)
OPENING = [{"role": "user", "content": "x"}]


class Kept:
    """A rollout and what it must hold."""

    def __init__(self, rollout, sampled, logprobs):
        self.rollout, self.sampled, self.logprobs = rollout, sampled, logprobs


class Rollouts(RuleBasedStateMachine):
    @initialize(tools=st.booleans())
    def begin(self, tools):
        rollout = Rollout(RENDERER)
        rollout.begin(OPENING, tools=[{"name": "f"}] if tools else None)
        self.kept = [Kept(rollout, [], [])]

    def pick(self, data, recorded):
        fitting = [each for each in self.kept if each.rollout.recorded is recorded]
        return data.draw(st.sampled_from(fitting))

    def any(self, recorded):
        return any(each.rollout.recorded is recorded for each in self.kept)

    @precondition(lambda self: self.any(False))
    @rule(data=st.data(), ids=IDS, with_logprobs=st.booleans(), reason=st.sampled_from([None, "stop", "length"]))
    def record(self, data, ids, with_logprobs, reason):
        each = self.pick(data, False)
        logprobs = [-0.25 * at for at in range(len(ids))] if with_logprobs else None
        before = each.rollout.to_dict()
        try:
            each.rollout.record(ids, logprobs, finish_reason=reason)
        except RendererError:
            assert reason == "length" and END in ids
            assert each.rollout.to_dict() == before
            return
        restored = reason == "stop" and END not in ids
        each.sampled.append([*ids, END] if restored else list(ids))
        each.logprobs.append([*(logprobs or [None] * len(ids)), *([None] if restored else [])])

    @precondition(lambda self: self.any(True))
    @rule(data=st.data(), roles=st.lists(st.sampled_from(["user", "tool", "system"]), max_size=3), whole=st.booleans())
    def extend(self, data, roles, whole):
        each = self.pick(data, True)
        rollout, new = each.rollout, [{"role": role, "content": "y"} for role in roles]
        before, start = rollout.to_dict(), list(rollout.segments[-1].token_ids)
        segments = len(rollout.segments)
        try:
            prompt = rollout.sync([*rollout.messages, *new]) if whole else rollout.extend(new)
        except RendererError:
            assert rollout.to_dict() == before
            return
        if len(rollout.segments) == segments:
            assert prompt[: len(start)] == start and len(prompt) > len(start)
        assert prompt == rollout.segments[-1].token_ids == rollout.prompt_ids

    @rule(data=st.data())
    def rewrite(self, data):
        each = data.draw(st.sampled_from(self.kept))
        each.rollout.rewrite(OPENING)
        assert each.rollout.declines[-1].on_purpose

    @precondition(lambda self: len(self.kept) < 5)
    @rule(data=st.data(), sampled=st.booleans())
    def fork(self, data, sampled):
        each = data.draw(st.sampled_from(self.kept))
        fork = each.rollout.fork(sampled=sampled)
        kept = ([list(ids) for ids in each.sampled], list(each.logprobs)) if sampled else ([], [])
        self.kept.append(Kept(fork, *kept))

    @rule(data=st.data())
    def write_and_read(self, data):
        each = data.draw(st.sampled_from(self.kept))
        written = json.loads(json.dumps(each.rollout.to_dict()))
        each.rollout = Rollout.from_dict(written, RENDERER)
        assert each.rollout.to_dict() == written

    @invariant()
    def each_sampled_id_is_in_one_segment_with_its_mask_and_logprob(self):
        for each in getattr(self, "kept", ()):
            found, values = [], []
            for segment in each.rollout.segments:
                mask, logprobs = segment.sampled_mask, segment.logprobs
                assert len(segment.token_ids) == len(mask) == len(logprobs)
                found += [token for token, mine in zip(segment.token_ids, mask, strict=True) if mine]
                values += [value for value, mine in zip(logprobs, mask, strict=True) if mine]
                assert all(mine or value is None for value, mine in zip(logprobs, mask, strict=True))
            assert found == [token for ids in each.sampled for token in ids]
            assert values == [value for ids in each.logprobs for value in ids]
            assert len(each.rollout.segments) == len(each.rollout.declines) + 1


TestRollouts = Rollouts.TestCase
TestRollouts.settings = settings(
    max_examples=max(1, STEPS // PER_RUN),
    stateful_step_count=PER_RUN,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
