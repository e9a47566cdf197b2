"""A resolution is a plain record: equal when the ids are, JSON and back, and able to say what differs."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace

import pytest

from rllm_renderer_core import PinMismatchError, Resolution
from rllm_renderer_core.renderer import sources

MINE = Resolution(
    "m/x",
    "prime",
    "qwen3",
    "exact",
    True,
    {"thinking": False},
    "rllm-renderer-prime 0.1.0",
    "0.1.0",
    {"renderers": "0.1.12"},
    "listed",
    ("a hint",),
)


def changed(**changes):
    return Resolution.from_dict({**MINE.to_dict(), **changes})


def test_it_goes_through_json():
    back = Resolution.from_dict(json.loads(json.dumps(MINE.to_dict())))
    assert back == MINE and back.reason == "listed" and back.hints == ("a hint",)


def test_it_goes_through_pickle_and_hashes():
    back = pickle.loads(pickle.dumps(MINE))
    assert back == MINE and hash(back) == hash(MINE)


def test_a_tokenizer_without_a_name_is_a_record_too():
    nameless = changed(model="")
    assert Resolution.from_dict(nameless.to_dict()) == nameless


@pytest.mark.parametrize("field", ["reason", "hints"])
def test_what_is_for_people_does_not_count(field):
    assert changed(**{field: ["other"] if field == "hints" else "other"}) == MINE


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model": "m/y"}, "model: m/x here, m/y there"),
        ({"backend": "tinker"}, "backend: prime here, tinker there"),
        ({"renderer": "qwen3.5"}, "renderer: qwen3 here, qwen3.5 there"),
        ({"has_bridge": False}, "has_bridge: true here, false there"),
        ({"options": {}}, "options.thinking: false here, not set there"),
        ({"upstream": {"renderers": "0.1.11"}}, "upstream.renderers: 0.1.12 here, 0.1.11 there"),
        ({"plugin": "x 1"}, "plugin: rllm-renderer-prime 0.1.0 here, x 1 there"),
        ({"core": "9"}, "core: 0.1.0 here, 9 there"),
    ],
)
def test_differences_compare_unequal_and_are_named(changes, line):
    other = changed(**changes)
    assert other != MINE
    assert MINE.differences(other) == [line]


def sourced(digest="aa", version="0.1.0", written=""):
    return changed(upstream={"cookbook": version}, sources={"cookbook": digest}, written=written)


@pytest.mark.parametrize(
    ("mine", "theirs", "lines"),
    [
        (sourced(), sourced(), []),
        (sourced(), sourced("bb"), ["sources.cookbook: aa here, bb there"]),
        (sourced(written="1"), sourced("bb"), ["sources.cookbook: aa here, bb there"]),
        (sourced(written="1"), sourced("bb", written="1"), []),
        (
            sourced(written="1"),
            sourced("bb", written="2"),
            ["sources.cookbook: aa here, bb there", "written: 1 here, 2 there"],
        ),
        (sourced(written="1"), sourced(written="2"), ["written: 1 here, 2 there"]),
        (sourced(), sourced(version="not installed"), []),
        (sourced(written="1"), sourced("bb", "not installed", "1"), []),
        (sourced(), sourced(version="0.2.0"), []),
        (
            sourced(),
            sourced("bb", "0.2.0", "1"),
            ["upstream.cookbook: 0.1.0 here, 0.2.0 there", "sources.cookbook: aa here, bb there"],
        ),
    ],
)
def test_digests_tell_more_than_versions(mine, theirs, lines):
    assert mine.differences(theirs) == lines
    assert (mine == theirs) is (not lines)


def test_equal_records_have_no_differences():
    assert MINE.differences(changed()) == []


@pytest.mark.parametrize(
    "changes",
    [{"schema": 99}, {"schema": None}, {"backend": ""}, {"renderer": None}, {"match": "lucky"}, {"surprise": 1}],
    ids=lambda changes: next(iter(changes)),
)
def test_data_that_is_no_record_is_refused(changes):
    with pytest.raises(PinMismatchError):
        Resolution.from_dict({**MINE.to_dict(), **changes})


@pytest.mark.parametrize("name", ["schema", "model", "backend", "renderer", "match", "has_bridge"])
def test_data_without_a_field_is_refused_by_name(name):
    data = MINE.to_dict()
    del data[name]
    with pytest.raises(PinMismatchError):
        Resolution.from_dict(data)


@pytest.mark.parametrize("data", [{}, {"schema": 1}])
def test_empty_data_is_refused(data):
    with pytest.raises(PinMismatchError):
        Resolution.from_dict(data)


def test_sources_are_digested_when_a_record_is_written_and_not_before(monkeypatch):
    asked = []
    digests = sources.source_digests
    monkeypatch.setattr(sources, "source_digests", lambda *what: asked.append(what) or digests(*what))
    record = replace(MINE, sources=sources.SourceDigests(["rllm-renderer-core"], {}))
    assert copy.copy(record).model == MINE.model and not asked
    written = json.loads(json.dumps(record.to_dict()))
    assert (
        list(written["sources"]) == ["rllm-renderer-core"] and len(written["sources"]["rllm-renderer-core"]) == sources.LENGTH
    )
    assert Resolution.from_dict(written) == record == pickle.loads(pickle.dumps(record))
    assert len(asked) == 1
