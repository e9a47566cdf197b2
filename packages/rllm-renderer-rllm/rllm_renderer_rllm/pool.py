"""Threads that call a renderer for a server's event loop: bridges and parses are processor work."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
WAIT_SECONDS = 0.05
"""How long a thread waits for a free renderer before it makes a copy: short bridges take turns, no one waits for a long one."""
logger = logging.getLogger("rllm_renderer")


class RendererPool:
    """A bounded pool of threads, of which those that run at once have a renderer each, over a tokenizer of its own.

    One thread at a time uses a tokenizer: with one for all of them a short bridge would wait for another session's long one.
    The first has the renderer that is passed in, another its copy (``RllmRenderer.copy``), made when all others have been in
    use for 50 ms, and kept. A copy costs the tokenizer's memory once more (Qwen3-8B's 44 MiB, Qwen3.5-9B's 80 MiB), and a
    second or two, in most of which no other thread of the process runs. A renderer without ``copy``, or whose tokenizer can't
    be copied, is shared by all.

    Args:
        threads: At most so many, and so many tokenizers.
    """

    def __init__(self, threads: int = 4) -> None:
        self._size = threads
        self._threads: ThreadPoolExecutor | None = None
        self._changed = threading.Condition()
        self._of: Any = None
        self._free: list[Any] = []  # it and its copies, those that no thread uses

    async def run(self, renderer: Any, function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """The result of ``function(*arguments, **named, renderer=...)``, called in a thread, with ``renderer`` or a copy.

        The thread may begin much later: pass no object that another request changes meanwhile.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(max_workers=self._size, thread_name_prefix="renderer")
        call = partial(function, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, renderer, call)

    def shutdown(self) -> None:
        """Ends the threads when what they run is done, without waiting for it. ``run`` starts new ones."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        self._threads = None

    def _call(self, renderer: Any, function: Callable[..., T]) -> T:
        with self._changed:
            if self._of is not renderer:
                self._of, self._free = renderer, [renderer]
            is_free = self._changed.wait_for(lambda: self._free and self._of is renderer, WAIT_SECONDS)
            own = self._free.pop() if is_free else None
        own = own if is_free else _copied(renderer)
        try:
            return function(renderer=own)
        finally:
            with self._changed:
                if self._of is renderer:
                    self._free.append(own)
                    self._changed.notify()


def _copied(renderer: Any) -> Any:
    copy = getattr(renderer, "copy", None)
    if copy is None:
        return renderer
    try:
        return copy()
    except Exception as error:
        logger.warning("threads share one renderer, as its tokenizer can't be copied: %s: %s", type(error).__name__, error)
        return renderer
