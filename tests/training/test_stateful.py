"""Generated rollouts: begin, record, resume, extend, sync, rewrite and fork in any order, against a model of what must hold.

Some hundreds of steps; many thousands with ``--whole``.
"""

from __future__ import annotations

import json
import pickle

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


class Decoding(toy.ToyTokenizer):
    def decode(self, ids, skip_special_tokens=False):
        return "".join(toy.decode([token]) for token in ids)


RENDERER = wrap(ToyRenderer(), Decoding())
IDS = st.lists(
    st.one_of(
        st.sampled_from([END, END, toy.THINK, toy.UNTHINK, toy.CALL, toy.ARGS, toy.UNCALL, toy.NEWLINE]), st.integers(90, 400)
    ),
    max_size=12,
)
OPENING = [{"role": "user", "content": "x"}]


class Kept:
    """A rollout and what it must hold: by segment, the sampled ids with their log-probability and weights version."""

    def __init__(self, rollout, sampled):
        self.rollout, self.sampled = rollout, sampled

    def copy(self, rollout):
        return Kept(rollout, {number: list(values) for number, values in self.sampled.items()})


class Rollouts(RuleBasedStateMachine):
    @initialize(tools=st.booleans(), begun=st.booleans())
    def begin(self, tools, begun):
        rollout = Rollout(RENDERER)
        opening = [*OPENING, {"role": "assistant", "content": "It is"}] if begun else OPENING
        rollout.begin(opening, tools=[{"name": "f"}] if tools else None, continue_final_message=begun)
        self.kept = [Kept(rollout, {})]

    def pick(self, data, recorded):
        return data.draw(st.sampled_from([kept for kept in self.kept if kept.rollout.recorded is recorded]))

    def any(self, recorded):
        return any(kept.rollout.recorded is recorded for kept in self.kept)

    @precondition(lambda self: self.any(False))
    @rule(
        data=st.data(),
        ids=IDS,
        with_logprobs=st.booleans(),
        words=st.sampled_from(
            [(None, None), ("stop", None), ("stop", END), ("stop", "</a>"), ("length", None), ("abort", None)]
        ),
        version=st.sampled_from([None, 1, 2]),
        with_forced=st.booleans(),
    )
    def record(self, data, ids, with_logprobs, words, version, with_forced):
        kept = self.pick(data, False)
        rollout, (reason, stop) = kept.rollout, words
        logprobs = [-0.25 * at for at in range(len(ids))] if with_logprobs else None
        forced = [at % 3 == 0 for at in range(len(ids))] if with_forced else None
        before, prompt, turns = rollout.to_dict(), rollout.prompt_ids, rollout.turns
        try:
            rollout.record(ids, logprobs, finish_reason=reason, stop_reason=stop, version=version, forced=forced)
        except RendererError:
            assert reason in ("length", "abort") and END in ids
            assert rollout.to_dict() == before
            return
        restored = stop == END and END not in ids
        assert rollout.segment.token_ids == [*prompt, *ids, *([END] if restored else [])] and rollout.turns == turns + 1
        values = list(zip(ids, logprobs or [None] * len(ids), [version] * len(ids), strict=True))
        values = [value for at, value in enumerate(values) if not (with_forced and at % 3 == 0)]
        kept.sampled.setdefault(rollout.current, []).extend([*values, *([(END, None, version)] if restored else [])])

    @precondition(lambda self: self.any(True))
    @rule(data=st.data())
    def resume(self, data):
        rollout = self.pick(data, True).rollout
        before, ids = rollout.to_dict(), list(rollout.segment.token_ids)
        stopped = END in ids[rollout.segment.turn_start :]
        try:
            assert rollout.resume() == ids == rollout.prompt_ids and not stopped
        except RendererError:
            assert stopped and rollout.to_dict() == before

    @precondition(lambda self: self.any(True))
    @rule(
        data=st.data(),
        roles=st.lists(st.sampled_from(["user", "tool", "system"]), max_size=3),
        whole=st.booleans(),
        limit=st.integers(20, 200),
    )
    def extend(self, data, roles, whole, limit):
        rollout, new = self.pick(data, True).rollout, [{"role": role, "content": "y"} for role in roles]
        before, start = rollout.to_dict(), list(rollout.segment.token_ids)
        segments = len(rollout.segments)
        try:
            room = rollout.remaining(limit, new)
            assert rollout.to_dict() == before
            prompt = rollout.sync([*rollout.messages, *new]) if whole else rollout.extend(new)
        except RendererError:
            assert rollout.to_dict() == before
            return
        assert whole or room == max(0, limit - len(prompt)) or not new
        if len(rollout.segments) == segments and not whole:
            assert prompt[: len(start)] == start and len(prompt) > len(start)
        assert prompt == rollout.segment.token_ids == rollout.prompt_ids

    @rule(data=st.data())
    def go_on_with_any_segment(self, data):
        """As an agent does whose sub-agent has spoken since."""
        rollout = data.draw(st.sampled_from(self.kept)).rollout
        segment = data.draw(st.sampled_from(rollout.segments))
        before, ids = rollout.to_dict(), [list(each.token_ids) for each in rollout.segments]
        new = [{"role": "user", "content": "z"}] if segment.recorded else []
        try:
            prompt = rollout.sync([*segment.messages, *new], segment.tools or [])
        except RendererError:
            assert rollout.to_dict() == before
            return
        assert prompt == rollout.prompt_ids == rollout.segment.token_ids
        assert rollout.current == len(ids) or prompt[: len(ids[rollout.current])] == ids[rollout.current]
        others = [number for number in range(len(ids)) if number != rollout.current]
        assert all(rollout.segments[number].token_ids == ids[number] for number in others)

    @rule(data=st.data())
    def rewrite(self, data):
        kept = data.draw(st.sampled_from(self.kept))
        kept.rollout.rewrite(OPENING)
        assert kept.rollout.declines[-1].on_purpose

    @precondition(lambda self: len(self.kept) < 5)
    @rule(data=st.data(), sampled=st.booleans())
    def fork(self, data, sampled):
        kept = data.draw(st.sampled_from(self.kept))
        fork = kept.rollout.fork(sampled=sampled)
        self.kept.append(kept.copy(fork) if sampled else Kept(fork, {}))

    @rule(data=st.data(), pickled=st.booleans())
    def write_and_read(self, data, pickled):
        kept = data.draw(st.sampled_from(self.kept))
        written = json.loads(json.dumps(kept.rollout.to_dict()))
        kept.rollout = pickle.loads(pickle.dumps(kept.rollout)) if pickled else Rollout.from_dict(written, RENDERER)
        assert kept.rollout.to_dict() == written

    @invariant()
    def each_sampled_id_is_in_one_segment_with_its_mask_logprob_and_version(self):
        for kept in getattr(self, "kept", ()):
            for number, segment in enumerate(kept.rollout.segments):
                columns = (segment.token_ids, segment.logprobs, segment.versions)
                mask = segment.sampled_mask
                assert {len(column) for column in columns} == {len(mask)}
                held = [value for mine, *value in zip(mask, *columns, strict=True) if mine]
                assert held == [list(value) for value in kept.sampled.get(number, [])]
                assert all(mine or value is None for value, mine in zip(segment.logprobs, mask, strict=True))
                assert sum(mask) == segment.sampled_count
            assert len(kept.rollout.segments) == len(kept.rollout.declines) + 1


TestRollouts = Rollouts.TestCase
TestRollouts.settings = settings(
    max_examples=max(1, STEPS // PER_RUN),
    stateful_step_count=PER_RUN,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
