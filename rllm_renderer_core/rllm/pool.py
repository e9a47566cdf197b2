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
logger = logging.getLogger("rllm_renderer")


class RendererPool:
    """A bounded pool of threads, each with a renderer over a tokenizer of its own.

    One thread at a time uses a tokenizer: with one for all of them a short bridge would wait for another session's long one.
    The first thread has the renderer that is passed in, another its copy (``RllmRenderer.copy``), made when all before it are
    busy for the first time. A copy costs the tokenizer's memory once more, and about a second. A renderer without ``copy``,
    or whose tokenizer can't be copied, is shared by all.

    Args:
        threads: At most so many, and so many tokenizers.
    """

    def __init__(self, threads: int = 4) -> None:
        self._size = threads
        self._threads: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._lock = threading.Lock()
        self._taken: Any = None  # the renderer that a thread has itself, not as a copy

    async def run(self, renderer: Any, function: Callable[..., T], /, *arguments: Any, **more: Any) -> T:
        """The result of ``function(*arguments, **more, renderer=...)``, called in a thread with its copy of ``renderer``.

        The thread may begin much later: pass no object that another request changes meanwhile.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(max_workers=self._size, thread_name_prefix="renderer")
        call = partial(function, *arguments, **more)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, renderer, call)

    def shutdown(self) -> None:
        """Ends the threads when what they run is done, without waiting for it. ``run`` starts new ones."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        self._threads = self._taken = None

    def _call(self, renderer: Any, function: Callable[..., T]) -> T:
        if getattr(self._local, "of", None) is not renderer:
            with self._lock:
                first, self._taken = self._taken is not renderer, renderer
            self._local.own = renderer if first else _copied(renderer)
            self._local.of = renderer
        return function(renderer=getattr(self._local, "own", None))


def _copied(renderer: Any) -> Any:
    copy = getattr(renderer, "copy", None)
    if copy is None:
        return renderer
    try:
        return copy()
    except Exception as error:
        logger.warning("threads share one renderer, as its tokenizer can't be copied: %s: %s", type(error).__name__, error)
        return renderer
