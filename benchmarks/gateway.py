"""rLLM's gateway under load: turns a second and p99 with our renderer, with the revision's own, and with none.

``RLLM_SOURCE=/path/to/rllm python benchmarks/gateway.py``. Each side is a gateway process on 127.0.0.1: as it is and without
cumulative tokens; as it is with them; patched. A worker of canned answers stands behind them, so that only the gateway works.
All sessions play at once, each prompt longer than the one before. Sides take turns, and the better round counts; the gateway's
processor says more than a clock on a busy machine. The full size is ``--sessions 256 --ids 60000``.

Two more tables: how long a bridge takes while a long prompt is rendered in the engine's process, and beside a long bridge.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "support"))

import real_tokenizers
import rllm_changes
import rllm_renderer_rllm as rllm
import rllm_source
import run

MODEL = "Qwen/Qwen3-8B"
REPLY = "<think>\nThe log says so.\n</think>\n\n" + run.TEXT * 4
LAUNCHER = """
import sys, transformers, real_tokenizers
transformers.AutoTokenizer.from_pretrained = lambda name, *_, **__: real_tokenizers.load(name)
from rllm_model_gateway.server import main
sys.argv = ["rllm-model-gateway", *sys.argv[1:]]
main()
"""
LENGTH, CHUNKED = re.compile(rb"content-length: *(\d+)", re.I), re.compile(rb"transfer-encoding: *chunked", re.I)


@dataclass
class Load:
    """What each session asks in each turn, and what the worker answers: bytes, the same for every session."""

    asked: list[bytes]
    chat: list[bytes]
    completed: bytes
    longest: int

    @classmethod
    def of(cls, tokenizer: Any, turns: int, ids: int) -> Load:
        renderer = rllm.get_renderer(MODEL, tokenizer)
        sampled = tokenizer.encode(f"{REPLY}<|im_end|>")
        logprobs = [{"token": "x", "logprob": -0.5, "top_logprobs": []} for _ in sampled]
        lines = max(1, (ids // turns - len(sampled)) // len(tokenizer.encode(run.TEXT)))
        messages: list[dict[str, Any]] = []
        asked, chat, prompt = [], [], []
        for turn in range(turns):
            messages.append({"role": "user", "content": f"Night {turn}.\n{run.TEXT * lines}"})
            asked.append(json.dumps({"model": MODEL, "messages": messages}).encode())
            prompt = renderer.render_ids(messages, add_generation_prompt=True)
            said = {"message": {"role": "assistant", "content": REPLY}, "logprobs": {"content": logprobs}}
            chat.append(_answer("chat.completion", said, sampled, prompt_token_ids=prompt))
            messages.append(said["message"])
        text = {"text": REPLY, "logprobs": {"token_logprobs": [-0.5] * len(sampled)}}
        return cls(asked, chat, _answer("text_completion", text, sampled), len(prompt))


def _answer(kind: str, choice: dict[str, Any], sampled: list[int], **more: Any) -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "token_ids": sampled, **choice}
    body = json.dumps({"id": "x", "object": kind, "created": 0, "model": MODEL, "choices": [choice], "usage": {}, **more})
    return f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


async def _request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    if CHUNKED.search(head):  # how a gateway answers a turn that takes it long
        chunks = []
        while size := int(await reader.readline(), 16):
            chunks.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        return head, b"".join(chunks)
    length = LENGTH.search(head)
    return head, await reader.readexactly(int(length[1])) if length else b""


class Worker(threading.Thread):
    """Answers at once, in a thread of this process; ``bridged`` counts prompts that came as ids."""

    def __init__(self, load: Load) -> None:
        super().__init__(daemon=True)
        self.load, self.bridged, self.rendered = load, 0, 0
        self._bound = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self._bound.getsockname()[1]}"

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._answer, sock=self._bound, limit=1 << 26)
        await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head, body = await _request(reader)
                path = head.split(b" ", 2)[1]
                if path.endswith(b"/chat/completions"):
                    self.rendered += 1
                    writer.write(self.load.chat[body.count(b'"user"') - 1])
                elif path.endswith(b"/completions"):
                    self.bridged += 1
                    writer.write(self.load.completed)
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
                await writer.drain()


@contextlib.contextmanager
def gateway(python: str, root: pathlib.Path, worker: Worker, *more: str) -> Iterator[tuple[int, int]]:
    """A gateway's port and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python, "-W", "ignore", "-c", LAUNCHER, "--host", "127.0.0.1", "--port", str(port), "--model", MODEL]
    command += ["--worker", f"{worker.url}/v1", "--store", "memory", "--log-level", "error", *more]
    # Without this interpreter's own packages: another may have other versions of them.
    path = [root, root / rllm_source.GATEWAY.parent, rllm_source.__file__.rpartition("/")[0]]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            _until_ready(process, port, log)
            yield port, process.pid
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _until_ready(process: subprocess.Popen[bytes], port: int, log: Any) -> None:
    for _ in range(600):
        if process.poll() is not None:
            log.seek(0)
            raise RuntimeError(log.read().decode().strip().splitlines()[-1])
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("the gateway did not start")


async def play(port: int, name: str, asked: list[bytes], times: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    for body in asked:
        head = f"POST /sessions/{name}/v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        start = time.perf_counter()
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        answer, _ = await _request(reader)
        times.append(time.perf_counter() - start)
        assert answer.startswith(b"HTTP/1.1 200"), answer
    writer.close()


@dataclass
class Round:
    """Of one side."""

    rate: float  # turns a second
    p99: float  # of a turn, ms
    processor: float  # the gateway's, ms a turn


def measured(port: int, pid: int, load: Load, sessions: int) -> Round:
    async def everyone(names: list[str]) -> list[float]:
        times: list[float] = []
        await asyncio.gather(*(play(port, name, load.asked, times) for name in names))
        return times

    asyncio.run(everyone(["warm-0", "warm-1"]))
    before, start = _processor(pid), time.perf_counter()
    times = asyncio.run(everyone([f"session-{at}" for at in range(sessions)]))
    took, used = time.perf_counter() - start, _processor(pid) - before
    return Round(len(times) / took, statistics.quantiles(times, n=100)[98] * 1e3, used / len(times) * 1e3)


def _processor(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sides(load: Load, sessions: int, rounds: int, own_python: str) -> dict[str, Round]:
    """The best round of each side, by turns a second."""
    root = rllm_source.source()
    assert root is not None
    best: dict[str, Round] = {}
    with tempfile.TemporaryDirectory() as folder:
        changed = rllm_changes.changed_copy(pathlib.Path(folder) / "rllm")
        bridging = ("--cumulative-token-mode",)
        made: dict[str, tuple[str, pathlib.Path, tuple[str, ...]]] = {
            "none": (sys.executable, root, ()),
            "the revision's own": (own_python, root, bridging),
            "ours": (sys.executable, changed, bridging),
        }
        for _ in range(rounds):
            for name, (python, place, arguments) in list(made.items()):
                worker = Worker(load)
                worker.start()
                try:
                    with gateway(python, place, worker, *arguments) as (port, pid):
                        found = measured(port, pid, load, sessions)
                except RuntimeError as error:
                    print(f"left out: {name} ({error})")
                    del made[name]
                    continue
                turns = (sessions + 2) * (len(load.asked) - 1)
                if arguments and worker.bridged != turns:
                    print(f"{name}: {worker.bridged} of {turns} turns were bridged")
                if name not in best or found.rate > best[name].rate:
                    best[name] = found
    return best


def table(best: dict[str, Round]) -> str:
    ours = best["ours"]
    lines = ["| renderer | turns a second | p99 of a turn | the gateway's processor a turn |", "|---|---|---|---|"]
    for name, each in best.items():
        rate, p99, processor = ours.rate / each.rate, ours.p99 / each.p99, ours.processor / each.processor
        ratios = ("", "", "") if each is ours else (f" (ours {rate:.2f}x)", f" (ours {p99:.2f}x)", f" (ours {processor:.2f}x)")
        lines.append(
            f"| {name} | {each.rate:.0f}{ratios[0]} | {each.p99:.0f} ms{ratios[1]} | {each.processor:.2f} ms{ratios[2]} |"
        )
    return "\n".join(lines)


def beside_an_engine(tokenizer: Any, ids: int, count: int) -> str:
    """Bridges while the engine's renderer renders a long prompt over and over: with that renderer, and with its copy."""
    engine = rllm.get_renderer(MODEL, tokenizer)
    long, _, _ = run.conversation(tokenizer, ids)
    short, _, _ = run.conversation(tokenizer, 2_000)
    prompt, sampled = engine.render_ids(short, add_generation_prompt=True), tokenizer.encode("Two.<|im_end|>")
    copy, stop = engine.copy(), threading.Event()

    def bridges(renderer: Any) -> list[float]:
        times = []
        for _ in range(count):
            start = time.perf_counter()
            assert renderer.bridge_to_next_turn(prompt, sampled, [{"role": "user", "content": "And at noon?"}]) is not None
            times.append((time.perf_counter() - start) * 1e3)
            time.sleep(0.005)
        return sorted(times)

    def render() -> None:
        while not stop.is_set():
            engine.render_ids(long, add_generation_prompt=True)

    rows = {"the engine at rest": bridges(copy)}
    busy = threading.Thread(target=render)
    busy.start()
    rows[f"it renders {ids:,} ids; a gateway with a copy"] = bridges(copy)
    rows["the same; a gateway with the engine's own renderer"] = bridges(engine)
    stop.set()
    busy.join()
    lines = ["| a bridge, while | median | p99 | longest |", "|---|---|---|---|"]
    for what, times in rows.items():
        lines.append(f"| {what} | {statistics.median(times):.1f} ms | {times[int(0.99 * count)]:.1f} ms | {times[-1]:.1f} ms |")
    return "\n".join(lines)


class Shared:
    """A renderer that can't be copied: the threads of a pool wait for each other."""

    def __init__(self, renderer: Any) -> None:
        self.bridge_to_next_turn = renderer.bridge_to_next_turn


def beside_a_bridge(tokenizer: Any, count: int) -> str:
    """A short bridge of one session beside another session's long one, in the gateway's pool."""
    renderer = rllm.get_renderer(MODEL, tokenizer)
    prompt = renderer.render_ids([{"role": "user", "content": "Go."}], add_generation_prompt=True)
    sampled, short, long = tokenizer.encode("Two.<|im_end|>"), "And at noon?", "The quick brown fox, 17 times. " * 8_000

    def bridge(text: str, renderer: Any) -> None:
        assert renderer.bridge_to_next_turn(prompt, sampled, [{"role": "user", "content": text}]) is not None

    async def bridges(given: Any) -> list[float]:
        pool, times = rllm.RendererPool(2), []
        for measured in (False, *[True] * count):  # the copy is made in the first
            other = asyncio.create_task(pool.run(given, bridge, long))
            await asyncio.sleep(0.01)
            start = time.perf_counter()
            await pool.run(given, bridge, short)
            times += [(time.perf_counter() - start) * 1e3] * measured
            await other
        pool.shutdown()
        return sorted(times)

    lines = ["| a short bridge beside another session's long one | median | longest |", "|---|---|---|"]
    for what, given in (("threads with a renderer each", renderer), ("threads that share one", Shared(renderer))):
        times = asyncio.run(bridges(given))
        lines.append(f"| {what} | {statistics.median(times):.1f} ms | {times[-1]:.1f} ms |")
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--sessions", type=int, default=64)
    arguments.add_argument("--turns", type=int, default=20)
    arguments.add_argument(
        "--ids", type=int, default=6_000, help="length of the last prompt (default: 6000; the full size is 60000)"
    )
    arguments.add_argument("--rounds", type=int, default=1)
    own = "interpreter of the revision's own side: 9beb6e0f's runs with renderers 0.1.7, not with 0.1.9 or later"
    arguments.add_argument("--own-python", default=sys.executable, help=own)
    given = arguments.parse_args()
    tokenizer = real_tokenizers.load(MODEL)
    print(beside_an_engine(tokenizer, max(given.ids, 60_000), 200), end="\n\n")
    print(beside_a_bridge(tokenizer, 10), end="\n\n")
    if reason := rllm_source.missing():
        print(f"left out: the gateway under load ({reason})")
        return
    load = Load.of(tokenizer, given.turns, given.ids)
    print(f"{given.sessions} sessions of {given.turns} turns, up to {load.longest:,} ids", end="\n\n")
    print(table(sides(load, given.sessions, given.rounds, given.own_python)))


if __name__ == "__main__":
    main()
