"""No id depends on the clock unless the resolution says so: the option ``date``, recorded and pinned."""

from __future__ import annotations

import datetime
import json
import pathlib
import subprocess
import sys

import pytest
import real_tokenizers
import toy
from rllm_renderer_template.parity.comparison import Query, template_renderer
from toy_template import TemplateTokenizer

from rllm_renderer_core import OptionError, RenderedTokens, resolve

USER = [{"role": "user", "content": "What day is it?"}]

DAY = """
import datetime, json, sys, warnings
warnings.simplefilter("ignore")
class Day(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat({today!r} + "T12:00:00")
    today = now
class Date(datetime.date):
    @classmethod
    def today(cls):
        return cls.fromisoformat({today!r})
datetime.datetime, datetime.date = Day, Date
sys.path.insert(0, {support!r})
import real_tokenizers
from rllm_renderer_core import resolve
tokenizer = real_tokenizers.load({model!r})
if "strftime_now" not in tokenizer.chat_template:
    tokenizer.chat_template += "{{{{ strftime_now('%Y') }}}}"
out = []
for options in json.loads({options!r}):
    renderer = resolve({model!r}, tokenizer, parity="off", **options)
    ids = renderer.render_ids([{{"role": "user", "content": "hi"}}], add_generation_prompt=True)
    out.append([renderer.resolution.to_dict(), ids])
print(json.dumps(out))
"""


def on_the(today, model, options):
    """Resolutions and ids in a process on that day."""
    support = str(pathlib.Path(real_tokenizers.__file__).parent)
    code = DAY.format(today=today, support=support, model=model, options=json.dumps(options))
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


@pytest.mark.parametrize(
    ("model", "renderers"),
    [
        pytest.param("openai/gpt-oss-20b", ["chat-template", "gpt-oss", "gpt_oss_medium_reasoning"], marks=pytest.mark.whole),
        ("meta-llama/Llama-3.2-3B-Instruct", ["chat-template", "llama-3"]),
    ],
)
def test_two_days_with_one_pin_give_the_same_ids(model, renderers):
    for package in ("transformers", "renderers", "tinker_cookbook"):
        pytest.importorskip(package)
    if reason := real_tokenizers.missing(model):
        pytest.skip(reason)
    options = [{"renderer": name} for name in renderers]
    first = on_the("2031-03-04", model, options)
    assert {pin["options"]["date"] for pin, _ in first} == {"2031-03-04"}
    pinned = [{"pin": pin} for pin, _ in first]
    named = [{**each, "date": "2031-03-04"} for each in options]
    later = on_the("2032-05-06", model, [*pinned, *options, *named])
    size = len(options)
    assert later[:size] == first, "another day with the same pin"
    for (other, ids), (pin, pinned_ids) in zip(later[size : 2 * size], first, strict=True):
        assert other["options"]["date"] == "2032-05-06" and ids != pinned_ids and other["renderer"] == pin["renderer"]
    assert [ids for _, ids in later[2 * size :]] == [ids for _, ids in first], "the day that is named"


def test_a_format_without_a_date_records_none_and_refuses_one():
    tokenizer = TemplateTokenizer()
    assert "date" not in resolve("nobody/knows", tokenizer, backend="chat-template").resolution.options
    with pytest.raises(OptionError, match="can't honour date='2031-03-04'") as caught:
        resolve("nobody/knows", tokenizer, backend="chat-template", date=datetime.date(2031, 3, 4))
    assert caught.value.option == "date"


@pytest.mark.parametrize("backend", ["prime", "chat-template"])
def test_a_template_with_a_date_of_its_own_records_none_and_refuses_another(backend):
    model = "meta-llama/Llama-3.1-8B-Instruct"
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    tokenizer = real_tokenizers.load(model)
    renderer = resolve(model, tokenizer, backend=backend, parity="off")
    assert "date" not in renderer.resolution.options
    assert "26 Jul 2024" in tokenizer.decode(renderer.render_ids(USER))
    with pytest.raises(OptionError, match="can't honour date='2025-01-02'"):
        resolve(model, tokenizer, backend=backend, parity="off", date="2025-01-02")


@pytest.mark.parametrize("value", ["4 March", 20310304, "2031-3-4", True])
def test_other_values_are_refused(value):
    with pytest.raises(OptionError, match="date must be a day as 'YYYY-MM-DD'"):
        resolve("nobody/knows", toy.ToyTokenizer(), date=value)


def test_the_reference_of_parity_has_the_same_day():
    class Clocked(TemplateTokenizer):
        def apply_chat_template(self, messages, *, strftime_now, **more):
            return [int(strftime_now("%Y")), *super().apply_chat_template(messages, **more)]

    tokenizer = Clocked(template="strftime_now")
    out = template_renderer(Query("x", tokenizer, date="2031-03-04")).render(USER)
    assert isinstance(out, RenderedTokens) and out.token_ids[0] == 2031
