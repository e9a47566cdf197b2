"""rLLM's three SFT backends on a patched copy: what they hand their trainers, for a conversation whose history renders anew."""

from __future__ import annotations

import json

import pytest
import real_tokenizers
import rllm_source

MODEL = "Qwen/Qwen3-8B"

SCRIPT = """
import json, sys, types
import rllm_offline, real_tokenizers
rllm_offline.stand_in_for_fireworks()
import tinker_cookbook.tokenizer_utils, transformers
from omegaconf import OmegaConf
tokenizer = real_tokenizers.load("Qwen/Qwen3-8B")
tinker_cookbook.tokenizer_utils.get_tokenizer = lambda name: tokenizer
transformers.AutoTokenizer.from_pretrained = lambda name, **_: tokenizer
from rllm.data import Dataset
from rllm.trainer.sft import SFTSpec
from rllm.trainer.sft.fireworks_backend import FireworksSFTBackend
from rllm.trainer.sft.tinker_backend import TinkerSFTBackend, build_sft_data
from rllm.trainer.sft.verl_backend import VerlSFTBackend
from rllm_renderer_verl import SupervisedDataset

structured = sys.argv[1] == "structured"
def said(thought, text):
    if structured:  # the revision's own schema
        return {"role": "assistant", "content": [{"type": "thinking", "thinking": thought}, {"type": "text", "text": text}]}
    return {"role": "assistant", "content": text, "reasoning_content": thought}
rows = [{"messages": [
    {"role": "user", "content": "How many lids?"}, said("Look.", "Seven."),
    {"role": "user", "content": "And boats?"}, said("Count.", "Eleven."),
]}]
found = {}

def spec(method, **more):
    overrides = {"model": {"name": "Qwen/Qwen3-8B", "tokenizer_model": "Qwen/Qwen3-8B", "path": "Qwen/Qwen3-8B"},
                 "fireworks_config": {"policy_trainer_shape_id": "any"}}
    return SFTSpec(model="Qwen/Qwen3-8B", train_dataset=Dataset(data=rows), batch_size=1, tokenize_method=method,
                   overrides=overrides, output_dir=sys.argv[2])

for method in ("cumulative", "stepwise"):
    for backend in (TinkerSFTBackend, FireworksSFTBackend):
        config = backend(spec(method)).build_config()
        config.data.rllm.loss_reduction = "none"
        datums = build_sft_data(config, Dataset(data=rows), None)[1].get_batch(0)
        found[backend.name, method] = [
            [tokenizer.decode([*each.model_input.to_ints(), each.loss_fn_inputs["target_tokens"].data[-1]]),
             [token for token, weight in zip(each.loss_fn_inputs["target_tokens"].data, each.loss_fn_inputs["weights"].data)
              if weight]] for each in datums]
    verl = VerlSFTBackend(spec(method))
    verl._compose_base = lambda: OmegaConf.create({"data": {}, "trainer": {}, "model": {}, "optim": {}})
    verl.validate_spec()
    verl.prepare_data()
    assert verl.config.data.custom_cls.path == "pkg://rllm_renderer_verl"
    made = getattr(sys.modules["rllm_renderer_verl"], verl.config.data.custom_cls.name)(
        verl.config.data.train_files, tokenizer, verl.config.data)
    found["verl", method] = [
        [tokenizer.decode(row["input_ids"]), row["input_ids"][row["loss_mask"] > 0].tolist()] for row in made]
for (backend, method), rows in found.items():
    print(json.dumps([backend, method, [[text, len(ids), tokenizer.decode(ids)] for text, ids in rows]]))
"""

ASKED = "<|im_start|>user\nHow many lids?<|im_end|>\n<|im_start|>assistant\n"
FIRST = f"{ASKED}<think>\nLook.\n</think>\n\nSeven.<|im_end|>"
SECOND = (
    f"{ASKED}Seven.<|im_end|>\n<|im_start|>user\nAnd boats?<|im_end|>\n"
    "<|im_start|>assistant\n<think>\nCount.\n</think>\n\nEleven.<|im_end|>"
)


def needs():
    needed = ("tinker", "tinker_cookbook", "omegaconf", "datasets", "torch", "polars", "codetiming")
    rllm_source.need("rLLM's SFT backends weren't run", *needed)


def test_all_three_train_what_the_model_samples_behind_its_own_prompt(process, changed, tmp_path):
    """Qwen3's template leaves out earlier reasoning, and its opener is bare: each turn is a sequence of its own."""
    import rllm_source

    needs()
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(why)
    file = tmp_path / "sft.py"
    file.write_text(SCRIPT)
    kind = "structured" if rllm_source.unified(changed) else "plain"
    result = process("-W", "ignore", file, kind, tmp_path)
    assert result.returncode == 0, result.stdout[-500:] + result.stderr[-4000:]
    found = [json.loads(line) for line in result.stdout.splitlines() if line.startswith('["')]
    assert [each[0] for each in found] == ["tinker", "fireworks", "verl"] * 2
    turns = [(text, text.rpartition("<|im_start|>assistant\n")[2]) for text in (FIRST, SECOND)]
    for _, method, sequences in found:
        wanted = turns if method == "cumulative" else turns[1:]
        assert [(text, trained) for text, _, trained in sequences] == wanted


ROWS = """
import pathlib, sys, types
import rllm_offline, real_tokenizers
rllm_offline.stand_in_for_fireworks()
import pandas, tinker_cookbook.tokenizer_utils, transformers
from omegaconf import OmegaConf
tinker_cookbook.tokenizer_utils.get_tokenizer = lambda name: real_tokenizers.load(name)
transformers.AutoTokenizer.from_pretrained = lambda name, **_: real_tokenizers.load(name)
from rllm.data import Dataset
from rllm.trainer.sft import SFTSpec
from rllm.trainer.sft.backend import SFTConfigError
from rllm.trainer.sft.fireworks_backend import FireworksSFTBackend
from rllm.trainer.sft.tinker_backend import TinkerSFTBackend, build_sft_data
from rllm.trainer.sft.verl_backend import VerlSFTBackend
from rllm_renderer_verl import SupervisedDataset

folder = pathlib.Path(sys.argv[1])

def verl(model, data, method="cumulative", **more):
    spec = SFTSpec(model=model, train_dataset=data, batch_size=1, tokenize_method=method, output_dir=str(folder),
                   overrides={"model": {"path": model}, "data": more})
    backend = VerlSFTBackend(spec)
    backend._compose_base = lambda: OmegaConf.create({"data": {}, "trainer": {}, "model": {}, "optim": {}})
    backend.validate_spec()
    backend.prepare_data()
    config = backend.config.data
    return [row["input_ids"].tolist() for row in SupervisedDataset(config.train_files, real_tokenizers.load(model), config)]

def hosted(backend, model, data, **more):
    overrides = {"model": {"name": model, "tokenizer_model": model}, "data": more,
                 "fireworks_config": {"policy_trainer_shape_id": "any"}}
    spec = SFTSpec(model=model, train_dataset=data, batch_size=len(data), overrides=overrides, output_dir=str(folder))
    return build_sft_data(backend(spec).build_config(), data, None)[1].get_batch(0)

def ids(datums):
    return [[*each.model_input.to_ints(), each.loss_fn_inputs["target_tokens"].data[-1]] for each in datums]

def refused(words, make):
    try:
        made = make()
    except SFTConfigError as error:
        assert words in str(error), error
    else:
        raise AssertionError(made)

# A model whose opener begins reasoning, and rows without any: the thinking mode that they were sampled in is a setting.
model, row = "zai-org/GLM-5", {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]}
plain = Dataset(data=[row])
def of(backend):
    return lambda *arguments, **more: ids(hosted(backend, *arguments, **more))

kinds = of(TinkerSFTBackend), of(FireworksSFTBackend), verl
shown = "[gMASK]<sop><|user|>2+2?<|assistant|></think>4<|user|>"
for make in kinds:
    (made,) = make(model, plain, chat_template_kwargs={"enable_thinking": False})
    assert real_tokenizers.load(model).decode(made) == shown
    refused("row=", lambda: make(model, plain))  # before training begins

# A row with nothing to train, and a way to render that is gone.
model, mute = "Qwen/Qwen3-8B", {"messages": [{**each, "trainable": False} for each in row["messages"]]}
for make in kinds:
    refused("train", lambda: make(model, Dataset(data=[row, mute])))
refused("hf_template", lambda: verl(model, plain, "hf_template"))

# Tools and calls of a Parquet file are those that were stored.
def tool(name, parameter):
    schema = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": schema}}

def call(id, name, arguments):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}

tools, calls = [tool("look", "q"), tool("count", "n")], [call("1", "look", '{"q": "a"}'), call("2", "count", '{"n": "b"}')]
called = {"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "", "tool_calls": calls},
    {"role": "tool", "content": "7", "tool_call_id": "1"}, {"role": "tool", "content": "8", "tool_call_id": "2"},
    {"role": "assistant", "content": "15"}], "tools": tools}
pandas.DataFrame([called]).to_parquet(folder / "rows.parquet")
wanted = verl(model, Dataset(data=[called]))
assert "null" not in real_tokenizers.load(model).decode(wanted[0])
for make in kinds:
    assert make(model, Dataset.load_data(str(folder / "rows.parquet"))) == wanted

# A row weighs one, though Qwen3 makes a Datum of each of its turns.
turns = {"messages": [*row["messages"], {"role": "user", "content": "3+3?"}, {"role": "assistant", "content": "6 it is"}]}
rllm = {"loss_reduction": "sequence_mean", "tokenize_and_mask_method": "cumulative"}
datums = hosted(TinkerSFTBackend, model, Dataset(data=[turns]), rllm=rllm)
assert len(datums) == 2
weights = [weight for each in datums for weight in each.loss_fn_inputs["weights"].data if weight]
assert len(set(weights)) == 1 and (sys.argv[2] == "plain" or abs(sum(weights) - 1) < 1e-5), weights
print("done", "rows")
"""


def test_rows_are_rendered_as_they_were_sampled_or_refused_before_training(process, changed, tmp_path):
    import rllm_source

    needs()
    for model in ("zai-org/GLM-5", MODEL):
        if why := real_tokenizers.missing(model):
            pytest.skip(why)
    file = tmp_path / "rows.py"
    file.write_text(ROWS)
    kind = "structured" if rllm_source.unified(changed) else "plain"  # 9beb6e0f has no loss_reduction
    result = process("-W", "ignore", file, tmp_path, kind)
    assert result.stdout.split()[-2:] == ["done", "rows"], result.stdout[-500:] + result.stderr[-4000:]
