"""The seam on small toy formats: each has one property that real templates have, and the bridge is right or declined."""

from __future__ import annotations

import itertools

import pytest
import toy
from hypothesis import given, settings
from hypothesis import strategies as st
from rllm_renderer_template import SeamBridge
from toy import ASSISTANT, CONTROL, END, NEWLINE, RESULT, ROLES, THINK, TOOL, UNTHINK, USER, ToyRenderer, encode

from rllm_renderer_core import BridgeDeclined

P = [toy.BOS, USER, *encode("How many?"), END, NEWLINE, ASSISTANT]
FOUR = encode("four")
RETURN = 60


def user(text="And lids?"):
    return {"role": "user", "content": text}


def result(content="five", **more):
    return {"role": "tool", "content": content, **more}


def call(name, call_id):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def said(*calls, content=""):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


class Format:
    """The toy's format as a function, with one thing changed by each subclass; counts its renders."""

    stops = (END,)
    special = CONTROL

    def __init__(self):
        self.toy = ToyRenderer()
        self.renders = 0

    def __call__(self, messages, tools):
        self.renders += 1
        head = [toy.BOS]
        if tools:
            head += [toy.SYSTEM, *encode(str(tools)), END, NEWLINE]
        return head + self.conversation(messages) + [ASSISTANT]

    def conversation(self, messages):
        return list(itertools.chain.from_iterable(self.message(message) for message in messages))

    def message(self, message):
        return [ROLES[message["role"]], *self.body(message), END, NEWLINE]

    def body(self, message):
        return self.toy.body(message)

    def seam(self, parse_calls=None, **more):
        return SeamBridge(self, self.stops, self.special, parse_calls, **more)


def delta(out, completion):
    assert out.token_ids[: len(P + completion)] == P + completion
    return out.token_ids[len(P + completion) :]


def reason(seam, completion, new, **more):
    with pytest.raises(BridgeDeclined) as caught:
        seam.bridge_to_next_turn(P, completion, new, **more)
    return caught.value.reason


# The plain format

SHAPES = {
    "user": ([*FOUR, END], [user()]),
    "two users": ([*FOUR, END], [user(), user("And cups?")]),
    "edges": ([*FOUR, END], [user("  x \n")]),
    "empty": ([*FOUR, END], [user("")]),
    "system": ([*FOUR, END], [{"role": "system", "content": "Be kind."}, user()]),
    "developer": ([*FOUR, END], [{"role": "developer", "content": "Be kind."}]),
    "cut off": (FOUR, [user()]),
    "nothing sampled": ([], [user()]),
    "the stop alone": ([END], [user()]),
    "newline sampled": ([*FOUR, END, NEWLINE], [user()]),
    "reasoning": ([THINK, *FOUR, UNTHINK, *FOUR, END], [user()]),
    "result": ([*FOUR, END], [result(name="look", tool_call_id="c0")]),
    "result and user": ([*FOUR, END], [result(name="look"), user()]),
    "empty result": ([*FOUR, END], [result("", name="look")]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_seam_equals_the_hand_written_bridge(name):
    completion, new = SHAPES[name]
    previous = said(call("look", "c0")) if any(message["role"] == "tool" for message in new) else None
    expected = ToyRenderer().bridge_to_next_turn(P, completion, new)
    for tools in (None, [{"type": "function", "function": {"name": "look"}}]):
        out = Format().seam().bridge_to_next_turn(P, completion, new, tools=tools, previous_message=previous)
        assert out.token_ids == expected.token_ids


def test_attribution_is_left_to_the_wrapper():
    out = Format().seam().bridge_to_next_turn(P, FOUR, [user()])
    assert (out.message_indices, out.sampled_mask) == (None, None)


TEXTS = st.one_of(
    st.text(max_size=20), st.sampled_from(["omega", "xray", "yankee", "ping", "yankeeping", "omega xray", "", "\n", "s"])
)
MESSAGES = st.lists(
    st.builds(lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "system"]), TEXTS),
    min_size=1,
    max_size=3,
)
SHARED = Format().seam()


@settings(max_examples=200, deadline=None)
@given(MESSAGES)
def test_any_text_equals_the_hand_written_bridge_the_seams_own_markers_too(new):
    completion = [*FOUR, END]
    expected = ToyRenderer().bridge_to_next_turn(P, completion, new).token_ids
    assert SHARED.bridge_to_next_turn(P, completion, new).token_ids == expected


# Endings


def test_a_doubled_stop_is_declined():
    assert "ids follow the stop" in reason(Format().seam(), [*FOUR, END, END], [user()])


def test_other_ids_behind_the_stop_are_declined():
    assert "ids follow the stop" in reason(Format().seam(), [*FOUR, END, *encode("x")], [user()])
    assert reason(Format().seam(), [*FOUR, END, NEWLINE, USER], [user()])


def test_a_completion_that_ends_in_another_control_token_is_declined():
    assert "control token" in reason(Format().seam(), [*FOUR, THINK], [user()])


def test_new_text_never_absorbs_sampled_ids():
    class Markers(Format):
        """Text that spells a control token becomes it, as in most tokenizers."""

        def body(self, message):
            out = []
            for at, part in enumerate(message["content"].split("<end>")):
                out += [END] * (at > 0) + encode(part)
            return out

    assert "ids follow the stop" in reason(Markers().seam(), [*FOUR, END, END], [user("<end>x")])
    out = Markers().seam().bridge_to_next_turn(P, [*FOUR, END], [user("<end>x")])
    assert delta(out, [*FOUR, END]) == [NEWLINE, USER, END, *encode("x"), END, NEWLINE, ASSISTANT]


# Formats that can't be bridged


class NoClose(Format):
    def message(self, message):
        return [ROLES[message["role"]], *self.body(message), NEWLINE]


class TwoCloses(Format):
    stops = ()

    def message(self, message):
        return [*super().message(message), END]


class DropsSystem(Format):
    def conversation(self, messages):
        kept = [m for at, m in enumerate(messages) if m["role"] != "system" or at == 0]
        return super().conversation(kept)


class MovesSystem(Format):
    def conversation(self, messages):
        return super().conversation(sorted(messages, key=lambda message: message["role"] != "system"))


class DropsAssistants(Format):
    def conversation(self, messages):
        return super().conversation([message for message in messages if message["role"] != "assistant"])


class DropsUsers(Format):
    def conversation(self, messages):
        return super().conversation([m for at, m in enumerate(messages) if m["role"] != "user" or at < 2])


class CountsTurns(Format):
    def conversation(self, messages):
        return super().conversation(messages) + encode(str(len(messages)))


class Refuses(Format):
    def conversation(self, messages):
        if len(messages) > 1 and messages[-1]["role"] == messages[-2]["role"]:
            raise ValueError("roles must alternate")
        return super().conversation(messages)


class RepeatsTheLastQuery(Format):
    """Shows the last user message before the assistant's turn too, as templates that number their queries do."""

    def conversation(self, messages):
        last = next((m["content"] for m in reversed(messages) if m["role"] == "user"), "")
        return [*encode(last), NEWLINE, *super().conversation(messages)]


SYSTEM = {"role": "system", "content": "Be kind."}
DECLINED = {
    "no close": (NoClose, [user()], "there is no close token between the assistant's turn"),
    "two closes": (TwoCloses, [user()], "two close tokens"),
    "drops a system message": (DropsSystem, [SYSTEM, user()], "drops new message 0 (system)"),
    "drops the only new message": (DropsSystem, [SYSTEM], "drops the new messages"),
    "moves a system message": (MovesSystem, [user(), SYSTEM], "change"),
    "drops the assistant": (DropsAssistants, [user()], "drops the assistant's turn"),
    "drops users": (DropsUsers, [user()], "drops the new messages"),
    "depends on the length": (CountsTurns, [user()], "depends on more of the history than its last close"),
    "refuses": (Refuses, [user(), user()], "ValueError: roles must alternate"),
    "shows it twice": (RepeatsTheLastQuery, [user()], "change"),
}


def test_of_two_closes_the_one_that_sampling_stops_at_ends_the_turn():
    class SecondIsTheTemplates(TwoCloses):
        stops = (END,)

    seam = SecondIsTheTemplates().seam()
    wanted = [NEWLINE, END, USER, *encode("And lids?"), END, NEWLINE, END, ASSISTANT]
    assert delta(seam.bridge_to_next_turn(P, [*FOUR, END], [user("And lids?")]), [*FOUR, END]) == wanted
    assert "ids follow the stop" in reason(seam, [*FOUR, END, NEWLINE, END], [user("And lids?")])


class SystemRefused(Format):
    """As Gemma 2's template and others."""

    def conversation(self, messages):
        if messages[0]["role"] == "system":
            raise ValueError("no system role")
        return super().conversation(messages)


class CallsNeedText(Format):
    def body(self, message):
        if message.get("tool_calls") and not message["content"]:
            raise ValueError("no content")
        return super().body(message)


class NineLetters(Format):
    """As Mistral's templates."""

    def body(self, message):
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        ids += [message["tool_call_id"]] if message["role"] == "tool" else []
        if any(len(each) != 9 or not each.isalnum() for each in ids):
            raise ValueError("ids must be of nine letters and digits")
        return super().body(message)


@pytest.mark.parametrize("new", [[user("And lids?")], [result("five", tool_call_id="abcdefgh1", name="look")]])
@pytest.mark.parametrize("strict", [SystemRefused, CallsNeedText, NineLetters])
def test_a_probe_conversation_that_the_format_accepts_is_looked_for(strict, new):
    wanted = Format().seam().bridge_to_next_turn(P, [*FOUR, END], new)
    assert strict().seam().bridge_to_next_turn(P, [*FOUR, END], new).token_ids == wanted.token_ids


def test_hypotheses_about_calls_are_tried_in_the_conversation_that_was_accepted():
    """Names show in the results of this format, so that a refused conversation must not count as a proof that they don't."""

    class Named(SystemRefused):
        def body(self, message):
            return (
                [*encode(message.get("name", "")), *super().body(message)]
                if message["role"] == "tool"
                else super().body(message)
            )

    assert "can't be paired for certain" in reason(Named().seam(), [*FOUR, END], [result("five")])


@pytest.mark.parametrize("name", DECLINED)
def test_a_format_that_cannot_be_bridged_is_declined_with_the_reason(name):
    make, new, words = DECLINED[name]
    seam = make().seam()
    assert words in reason(seam, [*FOUR, END], new)
    assert words in reason(seam, [*FOUR, END], new)  # from the cache as well


def test_what_a_format_refuses_for_one_shape_does_not_stop_another():
    seam = Refuses().seam()
    assert reason(seam, [*FOUR, END], [user(), user()])
    assert seam.bridge_to_next_turn(P, [*FOUR, END], [user()])


def test_a_leading_system_block_is_not_repeated():
    class DefaultSystem(Format):
        def conversation(self, messages):
            default = [] if messages[0]["role"] == "system" else [{"role": "system", "content": "You are a toy."}]
            return super().conversation([*default, *messages])

    completion = [*FOUR, END]
    out = DefaultSystem().seam().bridge_to_next_turn(P, completion, [result(name="look")])
    assert delta(out, completion) == [NEWLINE, TOOL, *encode("look"), toy.RESULT, *encode("five"), END, NEWLINE, ASSISTANT]


@pytest.mark.parametrize("message", [{"role": "assistant", "content": "a"}, {"role": "user", "content": [{"type": "image"}]}])
def test_assistants_and_media_are_declined(message):
    assert reason(Format().seam(), [*FOUR, END], [message])


def test_empty_p_and_empty_n_are_declined():
    assert reason(Format().seam(), [*FOUR, END], []) == "there is no new message"
    with pytest.raises(BridgeDeclined, match="previous prompt is empty"):
        Format().seam().bridge_to_next_turn([], [*FOUR, END], [user()])


# Other closes


class RoleTags(Format):
    """The next role's tag ends a turn, as in GLM."""

    stops = (USER, TOOL)

    def message(self, message):
        return [ROLES[message["role"]], *self.body(message)]


def test_a_role_tag_is_the_close():
    for stop, new in ((USER, user()), (TOOL, result(name="f"))):
        completion = [*FOUR, stop]
        out = RoleTags().seam().bridge_to_next_turn(P, completion, [new])
        assert delta(out, completion) == [*RoleTags().body(new), ASSISTANT]


def test_a_role_tag_that_contradicts_the_new_messages_is_declined():
    assert "contradicts the new messages" in reason(RoleTags().seam(), [*FOUR, TOOL], [user()])
    system = {"role": "system", "content": "Be kind."}
    for stop in (USER, TOOL):  # a system's tag is no stop, and stands before its text all the same
        assert "contradicts the new messages" in reason(RoleTags().seam(), [*FOUR, stop], [system, user()])


def test_a_missing_role_tag_is_added():
    out = RoleTags().seam().bridge_to_next_turn(P, FOUR, [user()])
    assert delta(out, FOUR) == [USER, *encode("And lids?"), ASSISTANT]


class Harmony(Format):
    """Sampling stops at RETURN, which history shows as END."""

    stops = (RETURN,)
    special = frozenset({*CONTROL, RETURN})


def test_a_stop_that_history_shows_as_another_close_stays():
    completion = [*FOUR, RETURN]
    out = Harmony().seam().bridge_to_next_turn(P, completion, [user()])
    assert delta(out, completion) == [NEWLINE, USER, *encode("And lids?"), END, NEWLINE, ASSISTANT]


def test_the_close_of_history_may_be_sampled_too():
    completion = [*FOUR, END]
    out = Harmony().seam().bridge_to_next_turn(P, completion, [user()])
    assert delta(out, completion) == [NEWLINE, USER, *encode("And lids?"), END, NEWLINE, ASSISTANT]


def test_turn_ends_adds_the_close_that_the_stops_lack():
    class Unknown(RoleTags):
        stops = (RETURN,)
        special = frozenset({*CONTROL, RETURN})

    assert Unknown().seam().turn_ends() == sorted([USER, TOOL, RETURN])
    assert Format().seam().turn_ends() == [END]


# Results and calls


class Merged(Format):
    """Results in a row share one turn, as in Qwen."""

    def conversation(self, messages):
        out = []
        for role, group in itertools.groupby(messages, key=lambda message: message["role"]):
            if role == "tool":
                out += [USER, *itertools.chain.from_iterable([toy.RESULT, *encode(m["content"])] for m in group), END, NEWLINE]
            else:
                out += list(itertools.chain.from_iterable(self.message(message) for message in group))
        return out


def test_results_share_the_turn_that_a_full_render_gives_them():
    completion = [*FOUR, END]
    out = Merged().seam().bridge_to_next_turn(P, completion, [result("A"), result("B"), user("Sure?")])
    results = [USER, toy.RESULT, *encode("A"), toy.RESULT, *encode("B"), END, NEWLINE]
    assert delta(out, completion) == [NEWLINE, *results, USER, *encode("Sure?"), END, NEWLINE, ASSISTANT]


def test_a_format_without_identity_needs_no_pairing():
    assert Merged().seam().bridge_to_next_turn(P, [*FOUR, END], [result("B", tool_call_id="x"), result("A")])


class ShowsIds(Format):
    def body(self, message):
        return (
            [*encode(message.get("tool_call_id") or "none"), *super().body(message)]
            if message["role"] == "tool"
            else super().body(message)
        )


def test_shown_ids_that_the_results_carry_are_certain_with_the_previous_message():
    completion = [*FOUR, END]
    new = [result("B", tool_call_id="c1"), result("A", tool_call_id="c0")]
    previous = said(call("look", "c0"), call("count", "c1"))
    named = [{**new[0], "name": "count"}, {**new[1], "name": "look"}]
    out = ShowsIds().seam().bridge_to_next_turn(P, completion, named, previous_message=previous)
    expected = [NEWLINE, *ShowsIds().message(named[0]), *ShowsIds().message(named[1]), ASSISTANT]
    assert delta(out, completion) == expected


class SortsResults(Format):
    """Results in the order of their calls, whatever order they came in, as in DeepSeek V4."""

    def conversation(self, messages):
        out, order = [], {}
        for message in messages:
            if message["role"] == "assistant":
                order = {each["id"]: at for at, each in enumerate(message.get("tool_calls") or ())}
        results = sorted((m for m in messages if m["role"] == "tool"), key=lambda m: order.get(m.get("tool_call_id"), 99))
        waiting = iter(results)
        for message in messages:
            out += self.message(next(waiting) if message["role"] == "tool" else message)
        return out


NEW = [result("B", tool_call_id="c1", name="f"), result("A", tool_call_id="c0", name="f")]


class SortsNamelessResults(SortsResults):
    def body(self, message):
        return super().body({**message, "name": "f"} if message["role"] == "tool" else message)


@pytest.mark.parametrize("make", [SortsResults, SortsNamelessResults])
def test_order_that_the_format_shows_needs_the_calls(make):
    assert "can't be paired for certain" in reason(make().seam(), [*FOUR, END], NEW)


def test_order_that_the_format_shows_is_right_with_the_previous_message():
    previous = said(call("f", "c0"), call("f", "c1"))
    out = SortsResults().seam().bridge_to_next_turn(P, [*FOUR, END], NEW, previous_message=previous)
    expected = [NEWLINE, *Format().message(NEW[1]), *Format().message(NEW[0]), ASSISTANT]
    assert delta(out, [*FOUR, END]) == expected


def test_calls_are_parsed_from_the_completion_where_there_is_no_previous_message():
    asked = []

    def parse_calls(ids):
        asked.append(list(ids))
        return [("f", "c0"), ("f", "c1")]

    out = SortsResults().seam(parse_calls).bridge_to_next_turn(P, [*FOUR, END], NEW)
    assert asked == [[*FOUR, END]]
    assert delta(out, [*FOUR, END])[1:] == [*Format().message(NEW[1]), *Format().message(NEW[0]), ASSISTANT]


def test_one_result_needs_no_calls_where_only_order_shows():
    assert SortsResults().seam().bridge_to_next_turn(P, [*FOUR, END], [result(name="f")])


# The cache


def test_a_cached_shape_costs_one_render():
    form = Format()
    seam = form.seam()
    seam.bridge_to_next_turn(P, [*FOUR, END], [user("first")])
    before = form.renders
    for text in ("second", "third, and longer", "yankee"):
        seam.bridge_to_next_turn(P, [*FOUR, END], [user(text)])
    assert form.renders == before + 3


def test_blank_and_other_texts_are_different_shapes():
    class SkipsBlank(Format):
        def conversation(self, messages):
            return super().conversation(
                [message for message in messages if message["content"].strip() or message.get("tool_calls")]
            )

    seam = SkipsBlank().seam()
    for text in ("x", " ", "y", ""):
        new = [user(text), user("z")]
        expected = [
            NEWLINE,
            *itertools.chain.from_iterable(Format().message(m) for m in new if m["content"].strip()),
            ASSISTANT,
        ]
        assert delta(seam.bridge_to_next_turn(P, [*FOUR, END], new), [*FOUR, END]) == expected


def test_a_head_that_depends_on_the_text_is_learned_anew():
    class Dated(Format):
        """A question puts a date at the top."""

        def conversation(self, messages):
            dated = messages[-1]["content"].endswith("?")
            return (encode("2026\n") if dated else []) + super().conversation(messages)

    form = Dated()
    seam = form.seam()
    seam.bridge_to_next_turn(P, [*FOUR, END], [user("x")])
    out = seam.bridge_to_next_turn(P, [*FOUR, END], [user("x?")])
    assert delta(out, [*FOUR, END]) == [NEWLINE, *form.message(user("x?")), ASSISTANT]


class WantsTextWithoutTools(Format):
    """Shows text beside calls behind their results, and without tools refuses a turn of calls that has none."""

    def __call__(self, messages, tools):
        if not tools and any(message.get("tool_calls") and not message["content"] for message in messages):
            raise ValueError("a turn without text")
        return super().__call__(messages, tools)

    def conversation(self, messages):
        out, kept = [], ""
        for message in messages:
            if kept and message["role"] != "tool":
                out, kept = [*out, *encode(kept)], ""
            if message.get("tool_calls"):
                kept, message = message["content"], {**message, "content": ""}
            out += self.message(message)
        return out + encode(kept)


def test_what_was_bridged_before_changes_no_bridge():
    tools = [{"type": "function", "function": {"name": "look"}}]
    previous, new = said(call("look", "c0")), [result(name="look", tool_call_id="c0")]
    warm, fresh = WantsTextWithoutTools().seam(), WantsTextWithoutTools().seam()
    assert reason(warm, [*FOUR, END], new, previous_message=previous)  # accepted with text alone
    for seam in (fresh, warm):
        out = seam.bridge_to_next_turn(P, [*FOUR, END], new, tools=tools, previous_message=previous)
        assert delta(out, [*FOUR, END]) == [NEWLINE, *Format().message(new[0]), ASSISTANT]


def test_the_close_that_history_shows_is_learned_for_each_list_of_tools():
    class ClosesByTools(Format):
        """With the tool named ``b`` a turn is closed by another token, which isn't a stop."""

        def __call__(self, messages, tools):
            ids = super().__call__(messages, tools)
            return [RESULT if token == END else token for token in ids] if "'b'" in str(tools) else ids

    tools = {name: [{"type": "function", "function": {"name": name}}] for name in "ab"}
    warm = ClosesByTools().seam()
    warm.bridge_to_next_turn(P, FOUR, [user()], tools=tools["a"])
    for seam in (warm, ClosesByTools().seam()):
        out = seam.bridge_to_next_turn(P, FOUR, [user()], tools=tools["b"])
        assert delta(out, FOUR) == [RESULT, NEWLINE, USER, *encode("And lids?"), RESULT, NEWLINE, ASSISTANT]


def test_the_cache_is_bounded():
    seam = Format().seam(cache_size=4)
    for count in range(1, 9):
        seam.bridge_to_next_turn(P, [*FOUR, END], [user()] * count)
    assert len(seam._experiments._known) <= 4


def test_inputs_are_never_changed():
    class Mutates(Format):
        def message(self, message):
            message["content"] = message["content"].strip()
            return super().message(message)

    prompt, completion, new = list(P), [*FOUR, END], [user(" x ")]
    Mutates().seam().bridge_to_next_turn(prompt, completion, new)
    assert (prompt, completion, new) == (P, [*FOUR, END], [user(" x ")])
