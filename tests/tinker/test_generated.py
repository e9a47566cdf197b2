"""Generated bridge calls: P + C and every new message, or declined; never anything else, never an exception.

A few; hundreds for each renderer with ``--whole``.
"""

import collections
import random

import shapes
from sampling import how_many
from tinker_generated import check, completion, new_messages
from tinker_turns import Turn

CALLS = how_many(40, 500)


def run(case, resolved, count, seed):
    turns = [Turn(case, resolved)]
    if case.renderer != "llama3":
        turns.append(Turn(case, resolved, shapes.TOOLS))
    starts = [(turn.start, turn.stops) for turn in turns]
    assert all(stops for _, stops in starts)
    found = collections.Counter()
    for number in range(count):
        rng = random.Random(f"{seed}-{case}-{number}")
        turn = rng.choice(turns)
        sampled, new = completion(rng, turn), new_messages(rng)
        try:
            found[check(turn, sampled, new)] += 1
        except AssertionError as error:
            raise AssertionError(f"{case} number {number}: {error}: {turn.tokenizer.decode(sampled)!r} then {new}") from error
    return found


def test_generated_bridges_keep_the_contract(case, resolved, record_property):
    found = run(case, resolved, CALLS, "default")
    record_property("outcomes", dict(found))
    assert found["equal"]
