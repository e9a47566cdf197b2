"""``SupervisedMapper`` on Ray Data: each worker of a local cluster resolves its own renderer from a pin.

Ray isn't among the tests' requirements, being 240 MB and a cluster that takes up to a minute and a half: ``make test-ray``
installs it and runs this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json
import ray, ray.data
from rllm_renderer_core import resolve
from rllm_renderer_cli.options import load_tokenizer
from rllm_renderer_training import supervised
from rllm_renderer_training.bulk.mapper import SupervisedMapper

MODEL = "Qwen/Qwen3.6-35B-A3B"
renderer = resolve(MODEL, load_tokenizer("demo"), parity="off")
talks = [
    [{"role": "user", "content": f"Question {n}?"}, {"role": "assistant", "content": f"Answer {n}."}] for n in range(40)
]
talks[7] = talks[7][1:]
# By the loopback address: workers wait forever for a node whose outer address a sandbox doesn't let them reach.
ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, object_store_memory=10**8, _node_ip_address="127.0.0.1")
given = {"tokenizer": "demo", "pin": renderer.resolution.to_dict(), "load": load_tokenizer}
rows = [{"row": n, "messages": talk} for n, talk in enumerate(talks)]
out = ray.data.from_items(rows, override_num_blocks=4).map_batches(
    SupervisedMapper,
    fn_constructor_args=(MODEL,),
    fn_constructor_kwargs=given,
    compute=ray.data.ActorPoolStrategy(size=2),
    batch_size=8,
)
got = sorted((row["row"], list(row["input_ids"]), list(row["weights"]), row["error"]) for row in out.take_all())
wanted = []
for number, talk in enumerate(talks):
    wanted += [] if number == 7 else [(number, e.token_ids, e.weights, "") for e in supervised(renderer, talk)]
assert [each for each in got if not each[3]] == wanted, got[:2]
assert [(number, "is the first one" in error) for number, _, _, error in got if error] == [(7, True)]
ray.shutdown()
print(json.dumps(len(got)))
"""


@pytest.mark.needs("ray")
def test_workers_of_a_local_cluster_give_what_one_process_gives() -> None:
    environment = {**os.environ, "RAY_DATA_DISABLE_PROGRESS_BARS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=400
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.strip().splitlines()[-1]) == 40
