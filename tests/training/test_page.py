"""The page of tokens: what is in it, and how it looks and works in a real browser, light and dark, wide and narrow."""

from __future__ import annotations

import html
import html.parser
import json
import os
import re
import shutil

import pytest
from rllm_renderer_training import Rollout
from rllm_renderer_training.page.page import rendered_page
from toy import END, NEWLINE, ToyRenderer, ToyTokenizer, decode, encode

from rllm_renderer_core.testing import wrap

OPENING = [{"role": "system", "content": "Be <b>brief</b> & kind."}, {"role": "user", "content": "How many? " + "x" * 300}]


class Readable(ToyTokenizer):
    def decode(self, ids, skip_special_tokens=False):
        names = {index: name for name, index in self.get_added_vocab().items()}
        return "".join(names.get(token) or decode([token]) for token in ids)


@pytest.fixture
def rollout():
    out = Rollout(wrap(ToyRenderer(), Readable()))
    out.begin(OPENING)
    out.record(encode("four"), [-0.01, -0.5, -2.0, -9.0], stop_reason=END)
    out.extend([{"role": "user", "content": "And\nlids?"}])
    out.record([*encode("two"), END, END])
    out.extend([{"role": "tool", "content": "5"}, {"role": "user", "content": "And cups?"}])  # declined: two stops
    out.record([*encode("one"), END], [-3.0] * 4)
    out.rewrite(OPENING, reason="compacted")
    return out


class Reader(html.parser.HTMLParser):
    """The page's tokens with what is told of each, its headings and notices, and whatever it would load."""

    def __init__(self, text):
        super().__init__()
        self.titles, self.headings, self.notices, self.loads, self._in = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        about = dict(attributes)
        if tag == "span" and "title" in about:
            self.titles.append((about["title"], about["class"].split()))
        self.loads += [value for name, value in attributes if name in ("src", "href")]
        if tag == "meta":
            return
        self._in.append((tag, about.get("class")))

    def handle_endtag(self, tag):
        while self._in and self._in.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for tag, kind in self._in[-2:]:
            if tag == "h3":
                self.headings.append(data)
            if kind == "notice":
                self.notices.append(data)


def test_every_id_is_told_with_what_is_known_of_it(rollout):
    read = Reader(rollout.html())
    ids = [int(re.match(r"id (\d+)", title)[1]) for title, _ in read.titles]
    assert ids == [token for segment in rollout.segments for token in segment.token_ids]
    sampled = [("s" in kinds) for _, kinds in read.titles]
    assert sampled == [mine for segment in rollout.segments for mine in segment.sampled_mask]
    told = [re.search(r"log-probability (-[\d.]+)", title) for title, _ in read.titles]
    logprobs = [value for segment in rollout.segments for value in segment.logprobs]
    assert [None if each is None else float(each[1]) for each in told] == logprobs
    assert [kinds[2] for title, kinds in read.titles if "log-probability -" in title][:4] == ["p0", "p1", "p2", "p4"]
    assert [title for title, kinds in read.titles if "r" in kinds] == [
        f"id {END}; sampled, log-probability not known; a stop that the engine left out, put back"
    ]


def test_blocks_are_messages_and_notices_say_why(rollout):
    read = Reader(rollout.html())
    assert [text for text in read.headings if text not in ("frame", "generation prompt")][:5] == [
        "message 0: system", "message 1: user", "message 2: assistant, sampled turn 1", "message 3: user",
        "message 4: assistant, sampled turn 2",
    ]  # fmt: skip
    text = " ".join(read.notices)
    assert "the bridge was declined: the completion has more than one stop" in re.sub(r"\s+", " ", text)
    assert "on purpose: compacted" in re.sub(r"\s+", " ", text)


def test_turns_count_on_and_each_generation_prompt_has_a_block_of_its_own(rollout):
    page = rollout.html()
    assert "3 turns in 3 segments" in page and "Segment 1: " in page
    headings = Reader(page).headings
    assert [text for text in headings if "sampled turn" in text] == [
        "message 2: assistant, sampled turn 1",
        "message 4: assistant, sampled turn 2",
        "message 7: assistant, sampled turn 3",
    ]
    for at, text in enumerate(headings):
        assert "sampled turn" not in text or headings[at - 1] == "generation prompt", headings
    assert headings.count("generation prompt") == 4, "three sampled from, and the one that waits"
    short = Rollout(rollout.renderer)
    short.begin(OPENING[1:])
    assert "0 turns in 1 segment, " in short.html()


def test_it_loads_nothing_and_text_is_text(rollout):
    page = rollout.html()
    assert Reader(page).loads == [] and "url(" not in page and "@import" not in page
    spoken = Rollout(wrap(ToyRenderer(), Readable()))
    spoken.begin([{"role": "user", "content": "<script>alert(1)</script>"}])
    spoken.rewrite(OPENING, reason="<img src=x onerror=alert(1)>")
    assert "<img" not in spoken.html() and spoken.html().count("<script>") == 1


def test_a_notebook_gets_it_in_a_frame(rollout):
    shown = re.fullmatch(r'<iframe title="tokens" srcdoc="([^"]*)" style="[^"]*"></iframe>', rollout._repr_html_())
    assert shown and html.unescape(shown[1]) == rollout.html()


def test_one_rendered_conversation_has_a_page(rollout):
    renderer = rollout.renderer
    out = renderer.render([*OPENING, {"role": "assistant", "content": "four"}])
    read = Reader(rendered_page(renderer, [*OPENING, {"role": "assistant"}], out))
    assert [("s" in kinds) for _, kinds in read.titles] == out.sampled_mask
    assert [text for text in read.headings if text not in ("frame", "generation prompt")] == [
        "message 0: system",
        "message 1: user",
        "message 2: assistant",
    ]
    assert NEWLINE in out.token_ids


# In a browser

CONTRAST = """
const channel = value => { value /= 255; return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
const light = colour => { const [r, g, b] = colour.match(/[\\d.]+/g).map(Number);
  return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
const behind = element => { for (let at = element; at; at = at.parentElement) {
  const colour = getComputedStyle(at).backgroundColor;
  if (!/, 0\\)$/.test(colour)) return colour; } return "rgb(255, 255, 255)"; };
const out = {};
for (const element of document.querySelectorAll("h1, h2, h3, p, li span, .t, strong, i")) {
  const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), name = element.tagName + "." + element.className;
  out[name] = Math.min(out[name] ?? 99, ratio);
}
return out;
"""


@pytest.fixture(scope="module", params=["light", "dark"])
def browser(request):
    from selenium import webdriver

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900"):
        options.add_argument(argument)
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    features = [{"name": "prefers-color-scheme", "value": request.param}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    opened.scheme = request.param
    yield opened
    opened.quit()


def shown(browser, rollout, tmp_path, width):
    file = tmp_path / "page.html"
    file.write_text(rollout.html(), encoding="utf-8")
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(file.as_uri())


def test_text_stands_out_from_what_is_behind_it(browser, rollout, tmp_path):
    shown(browser, rollout, tmp_path, 1200)
    ratios = browser.execute_script(CONTRAST)
    assert len(ratios) > 10 and min(ratios.values()) >= 4.5, ratios
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) > 600) is (browser.scheme == "light")


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_is_wider_than_the_window(browser, rollout, tmp_path, width):
    shown(browser, rollout, tmp_path, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(
        "return [...document.querySelectorAll('.t')].every(t => t.getBoundingClientRect().right <= innerWidth)"
    )


def test_tokens_are_reached_by_keys_and_told(browser, rollout, tmp_path):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    shown(browser, rollout, tmp_path, 1200)
    ids = [token for segment in rollout.segments for token in segment.token_ids]
    told = browser.find_element("id", "told")
    for key, expected in ((Keys.TAB, 0), (Keys.ARROW_RIGHT, 1), (Keys.ARROW_RIGHT, 2), (Keys.ARROW_LEFT, 1)):
        ActionChains(browser).send_keys(key).perform()
        assert f": id {ids[expected]}; " in told.text
    focused = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert focused == "solid"
    token = browser.find_elements("css selector", ".tokens .s")[0]
    ActionChains(browser).move_to_element(token).perform()
    assert json.dumps(token.text) in told.text and "log-probability -0.01" in told.text


def test_a_picture_of_it_has_its_colours(browser, rollout, tmp_path):
    """The picture is kept where ROLLOUT_PAGE_PICTURES names a folder, to be looked at."""
    shown(browser, rollout, tmp_path, 1200)
    picture = browser.get_screenshot_as_png()
    folder = os.environ.get("ROLLOUT_PAGE_PICTURES")
    if folder:
        with open(os.path.join(folder, f"{browser.scheme}.png"), "wb") as file:
            file.write(picture)
    image = pytest.importorskip("PIL.Image", reason="Pillow isn't installed: the picture isn't read")
    import io

    pixels = image.open(io.BytesIO(picture)).convert("RGB")
    found = {colour for _, colour in pixels.getcolors(1 << 24)}
    wanted = browser.execute_script(
        "return [...document.querySelectorAll('.legend .t')].map(t => getComputedStyle(t).backgroundColor)"
    )
    missing = [each for each in wanted if tuple(map(int, re.findall(r"\d+", each)[:3])) not in found]
    assert not missing
