"""The threads of a server: each with a renderer of its own, no more than allowed, copies made when they are needed."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading

import pytest
from rllm_renderer_rllm import RendererPool

from rllm_renderer_core.normal_form.tokenizer import lock_of, packed


class Numbered:
    """A renderer that says which copy it is."""

    def __init__(self, made=None):
        self.made = made if made is not None else []
        self.number = len(self.made)
        self.made.append(self)

    def copy(self):
        return Numbered(self.made)


@pytest.fixture
def pool():
    """``pool(threads)``, shut down at the end."""
    made = []

    def pool(threads):
        made.append(RendererPool(threads))
        return made[-1]

    yield pool
    for each in made:
        each.shutdown()


async def held(pool, renderer, count, meet):
    """The renderers of so many calls that run at once."""

    def call(renderer):
        meet.wait(timeout=30)
        return renderer

    return await asyncio.gather(*(pool.run(renderer, call) for _ in range(count)))


def test_calls_one_after_another_use_the_renderer_that_was_given(pool):
    renderer = Numbered()
    threads = pool(4)

    async def calls():
        return [await threads.run(renderer, lambda renderer, *, key: (renderer.number, key), key=at) for at in range(20)]

    assert asyncio.run(calls()) == [(0, at) for at in range(20)]
    assert renderer.made == [renderer]


def test_calls_at_once_have_a_renderer_each_and_no_more_than_allowed(pool):
    renderer = Numbered()
    threads = pool(3)
    first = asyncio.run(held(threads, renderer, 3, threading.Barrier(3)))
    assert {each.number for each in first} == {0, 1, 2}
    again = asyncio.run(held(threads, renderer, 12, threading.Barrier(3)))
    assert {each.number for each in again} == {0, 1, 2} and len(renderer.made) == 3


def test_another_renderer_is_never_taken_for_the_one_before(pool):
    threads, names = pool(2), []
    for renderer in (Numbered(), Numbered(), object(), None):
        found = asyncio.run(held(threads, renderer, 2, threading.Barrier(2)))
        names.append(all(each in getattr(renderer, "made", [renderer]) for each in found))
    assert all(names)


def test_it_runs_again_after_a_shutdown(pool):
    """As a server that is stopped and started."""
    renderer = Numbered()
    threads = pool(2)
    for _ in range(2):
        assert {each.number for each in asyncio.run(held(threads, renderer, 2, threading.Barrier(2)))} >= {0}
        threads.shutdown()


@pytest.mark.parametrize("kind", ["without copy", "that can't be copied"])
def test_a_renderer_is_shared_where_there_is_no_copy(pool, kind, caplog):
    class Refusing:
        def copy(self):
            raise TypeError("no pickle")

    caplog.set_level(logging.WARNING, logger="rllm_renderer")
    renderer = object() if kind == "without copy" else Refusing()
    assert asyncio.run(held(pool(2), renderer, 2, threading.Barrier(2))) == [renderer, renderer]
    assert ["no pickle" in record.getMessage() for record in caplog.records] == ([] if kind == "without copy" else [True])


def test_errors_reach_the_caller(pool):
    def call(renderer):
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        asyncio.run(pool(1).run(None, call))


class Watched:
    """A tokenizer that notes whether its lock is held while it is pickled."""

    free = None

    def __reduce__(self):
        def other():
            Watched.free = lock_of(self).acquire(blocking=False)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return Watched, ()


def test_a_tokenizer_isnt_copied_while_another_thread_uses_it():
    pickle.dumps(packed(Watched()))
    assert Watched.free is False
