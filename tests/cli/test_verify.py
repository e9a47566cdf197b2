"""``rllm-renderer verify``: green where ids are equal, red with the shape and the id where they aren't."""

from __future__ import annotations

import importlib.util
import json
import pathlib

import pytest
import real_tokenizers
from rllm_renderer_template.parity.probes import PROBES, TURN_SHAPES
from toy import ToyTokenizer
from toy_template import TemplateTokenizer, plugin_source

M3 = "MiniMaxAI/MiniMax-M3"


@pytest.fixture
def tokenizers(monkeypatch):
    """``tokenizers[name] = tokenizer`` makes ``--tokenizer name`` find it."""
    from rllm_renderer_core.normal_form import tokenizer as vocabulary

    found = {"toy": TemplateTokenizer(), "bare": ToyTokenizer()}
    monkeypatch.setattr(vocabulary, "load_tokenizer", lambda name: found[name])
    return found


@pytest.fixture
def toy(no_plugins, install, tokenizers):
    listed = {"toy/right": "right", "toy/trims": "trims", "toy/bridge": "wrong-bridge", "toy/strict": "no-system-later"}
    install("rllm-renderer-toy", source=plugin_source("right", listed=listed))


@pytest.mark.usefixtures("toy")
def test_like_outcomes_are_one_line_and_three_differences_are_shown(run):
    green = run("verify", "toy/right", "--tokenizer", "toy").stdout.splitlines()
    assert [line.split()[:2] for line in green if line[:1].isdigit()] == [[str(len(PROBES)), "equal"], ["9", "agrees"]]
    red = run("verify", "toy/trims", "--tokenizer", "toy").stdout
    assert red.count(" differs\n  who ") == 3 and "4 more differ: --all shows their ids" in red
    assert run("verify", "toy/trims", "--tokenizer", "toy", "--all").stdout.count(" differs\n  who ") == 7


@pytest.mark.usefixtures("toy")
def test_another_models_tokenizer_is_told_by_who_writes_its_template(run):
    said = (
        "the tokenizer's chat template is what toy:right writes: it isn't the tokenizer of toy/trims, or that is the renderer"
    )
    assert said in run("verify", "toy/trims", "--tokenizer", "toy").stdout
    assert json.loads(run("verify", "toy/trims", "--tokenizer", "toy", "--json").stdout)["doubt"].startswith(said)
    assert json.loads(run("verify", "toy/right", "--tokenizer", "toy", "--json").stdout)["doubt"] == ""


@pytest.mark.usefixtures("toy")
def test_green(run):
    result = run("verify", "toy/right", "--tokenizer", "toy", "--all")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0 and result.stderr == ""
    assert lines[0] == "toy:right for toy/right against the chat template"
    for probe in PROBES:
        assert any(line.startswith(probe.name) and line.split()[-1] == "equal" for line in lines)
    for shape in TURN_SHAPES:
        assert any(line.startswith(shape.name) and line.split()[-1] == "agrees" for line in lines)
    assert lines[-1] == f"equal on {len(PROBES)} of {len(PROBES)} probes; 9 of 9 bridges agree: nothing differs"


@pytest.mark.usefixtures("toy")
def test_a_difference_is_status_1_with_both_texts_and_ids(run):
    result = run("verify", "toy/trims", "--tokenizer", "toy")
    assert result.exit_code == 1 and result.stdout.splitlines()[-1].endswith("ids differ")
    at = result.stdout.splitlines().index("white space at the edges: id 2 differs")
    head, template, renderer = (line.split("  ") for line in result.stdout.splitlines()[at + 1 : at + 4])
    assert head[1] == "who" and "the chat template" in template and "toy:trims" in renderer
    assert any("' Be br'" in cell for cell in template) and any("'Be bri'" in cell for cell in renderer)


@pytest.mark.usefixtures("toy")
def test_a_wrong_bridge_is_red_with_its_shape(run):
    result = run("verify", "toy/bridge", "--tokenizer", "toy")
    assert result.exit_code == 1
    assert "bridge to one result: id 0 differs" in result.stdout and "4 of 9 bridges agree" in result.stdout


@pytest.mark.usefixtures("toy")
def test_a_refusal_is_shown_and_isnt_red(run):
    result = run("verify", "toy/strict", "--tokenizer", "toy")
    assert result.exit_code == 0
    assert "the renderer refuses" in result.stdout and "the system message must come first" in result.stdout


@pytest.mark.usefixtures("toy")
def test_json(run):
    green = json.loads(run("verify", "toy/right", "--tokenizer", "toy", "--json").stdout)
    assert green["ok"] and green["parity"]["equal"] == len(PROBES) and len(green["bridges"]) == 9
    assert green["resolution"]["renderer"] == "right"
    result = run("verify", "toy/bridge", "--tokenizer", "toy", "--json")
    red = json.loads(result.stdout)
    assert result.exit_code == 1 and not red["ok"]
    assert {each["shape"] for each in red["bridges"] if each["outcome"] == "differs"} == {
        shape.name for shape in TURN_SHAPES if shape.new[0]["role"] == "tool"
    }


@pytest.mark.usefixtures("toy")
def test_against_another_renderer_or_backend(run):
    result = run("verify", "toy/right", "--tokenizer", "bare", "--against", "toy:trims")
    assert result.exit_code == 1 and "toy:right for toy/right against toy:trims" in result.stdout
    assert run("verify", "toy/right", "--tokenizer", "toy", "--against", "chat-template").exit_code == 0
    assert run("verify", "toy/right", "--tokenizer", "bare", "--against", "nobody").exit_code == 2


@pytest.mark.usefixtures("toy")
def test_a_template_from_a_file(run, tmp_path, tokenizers):
    file = tmp_path / "chat_template.jinja"
    file.write_text("the template of the file")
    assert run("verify", "toy/right", "--tokenizer", "toy", "--template", str(file)).exit_code == 0
    assert tokenizers["toy"].chat_template == "the template of the file"
    file.write_bytes(b"\xff\xfe")
    for bad in (file, tmp_path, tmp_path / "none"):
        result = run("verify", "toy/right", "--tokenizer", "toy", "--template", str(bad))
        assert result.exit_code == 2 and result.stderr.count("\n") == 1


@pytest.mark.usefixtures("toy")
def test_what_cant_be_compared_is_one_line(run):
    result = run("verify", "toy/right", "--tokenizer", "bare")
    assert result.exit_code == 2 and "no chat template: give --template FILE" in result.stderr
    result = run("verify", "toy/right", "--tokenizer", "toy", "--backend", "chat-template")
    assert result.exit_code == 2 and "served by its chat template itself" in result.stderr


# MiniMax-M3, whose plugin the author's guide takes apart


@pytest.fixture
def m3(tokenizers):
    why = real_tokenizers.missing(M3)
    if why:
        pytest.skip(why)
    pytest.importorskip("rllm_renderer_minimax_m3")
    tokenizers["m3"] = real_tokenizers.load(M3)


@pytest.mark.usefixtures("m3")
def test_the_m3_plugin_is_green(run):
    result = run("verify", M3, "--tokenizer", "m3")
    assert result.exit_code == 0, result.stdout
    inline = sum("inline" in probe.tags for probe in PROBES)  # markers that text spells: documented
    equal = f"equal on {len(PROBES) - inline} of {len(PROBES)} probes (differs as documented on {inline})"
    assert result.stdout.splitlines()[-1].startswith(equal)


@pytest.mark.usefixtures("m3")
def test_a_copy_with_one_wrong_separator_is_red_and_names_shape_and_id(run, install):
    """Between two results of one turn the copy writes no newline."""
    spec = importlib.util.find_spec("rllm_renderer_minimax_m3")
    sources = {}
    for file in sorted(pathlib.Path(spec.origin).parent.glob("*.py")):
        name = "m3_copy" if file.stem == "__init__" else f"m3_copy.{file.stem}"
        sources[name] = file.read_text(encoding="utf-8").replace('= "minimax-m3"', '= "m3-copy"')
    right, wrong = 'else "</response>\\n")', 'else "</response>")'
    assert sources["m3_copy.rendering"].count(right) == 1
    sources["m3_copy.rendering"] = sources["m3_copy.rendering"].replace(right, wrong)
    install("rllm-renderer-m3-copy", modules=sources, entry_points={"m3-copy": "m3_copy"})
    result = run("verify", M3, "--tokenizer", "m3", "--backend", "m3-copy", "--json")
    red = json.loads(result.stdout)
    assert result.exit_code == 1
    odd = [each for each in red["parity"]["results"] if each["outcome"] == "differs"]
    assert [each["probe"] for each in odd] == ["two calls and their results"]
    assert "</response>\n" in odd[0]["difference"]["expected"] and "</response><" in odd[0]["difference"]["got"]
    bridges = {each["shape"] for each in red["bridges"] if each["outcome"] == "differs"}
    assert bridges == {"two results", "results in reverse"}
    page = run("verify", M3, "--tokenizer", "m3", "--backend", "m3-copy").stdout
    assert f"two calls and their results: id {odd[0]['difference']['index']} differs" in page
    assert "bridge to two results: id " in page
