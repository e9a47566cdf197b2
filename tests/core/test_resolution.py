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


@pytest.mark.parametrize("field", ["reason", "hints", "core"])
def test_what_is_for_people_does_not_count(field):
    other = changed(**{field: ["other"] if field == "hints" else "other"})
    assert other == MINE and MINE.differences(other) == [] and hash(other) == hash(MINE)


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
        ({"plugin": "rllm-renderer-prime 9"}, "plugin: rllm-renderer-prime 0.1.0 here, rllm-renderer-prime 9 there"),
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
        (sourced(written="1"), sourced("bb", "0.2.0", "1"), []),
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


OWN = "rllm-renderer-prime"


@pytest.mark.parametrize(
    ("here", "there", "equal"),
    [
        ({}, {}, False),
        ({"sources": {OWN: "aa"}}, {}, False),
        ({"sources": {OWN: "aa"}}, {"sources": {OWN: "aa"}}, True),
        ({"sources": {OWN: "aa"}}, {"sources": {OWN: "bb"}}, False),
        ({"written": "1"}, {"written": "1"}, True),
        ({"written": "1"}, {"written": "2"}, False),
        ({"written": "1", "sources": {OWN: "aa"}}, {"written": "2", "sources": {OWN: "aa"}}, False),
        ({"written": "1", "sources": {OWN: "aa"}}, {"written": "1", "sources": {OWN: "bb"}}, True),
    ],
)
def test_another_version_of_the_plugin_counts_unless_what_it_writes_or_its_sources_are_equal(here, there, equal):
    other = changed(plugin=f"{OWN} 0.2.0", **there)
    assert (changed(**here) == other) is equal
    assert equal or changed(**here).differences(other)


def test_a_plugin_of_another_distribution_is_another_one_even_where_the_same_is_written():
    there = changed(plugin="acme-renderer 0.1.0", written="1")
    assert changed(written="1").differences(there) == ["plugin: rllm-renderer-prime here, acme-renderer there"]


def test_other_ids_name_the_versions_that_may_be_why():
    lines = changed(written="1").differences(changed(written="2", core="0.1.1", upstream={"renderers": "0.1.11"}))
    assert set(lines) == {
        "written: 1 here, 2 there",
        "core: 0.1.0 here, 0.1.1 there",
        "upstream.renderers: 0.1.12 here, 0.1.11 there",
    }


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
    digest = sources._digest
    monkeypatch.setattr(sources, "_digest", lambda folder: asked.append(folder) or digest(folder))
    digests = sources.SourceDigests((("rllm-renderer-core", "rllm_renderer_core"), ("nowhere", "no_such_package")))
    record = replace(MINE, sources=digests)
    assert copy.copy(record) == record and not asked
    written = json.loads(json.dumps(record.to_dict()))
    assert list(written["sources"]) == ["rllm-renderer-core"]
    assert len(written["sources"]["rllm-renderer-core"]) == sources.LENGTH
    assert Resolution.from_dict(written) == record == pickle.loads(pickle.dumps(record))
    assert len(asked) == 1


def test_a_changed_file_changes_the_digest_and_bytecode_does_not(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "digested").mkdir()
    seen = []
    for number, text in enumerate(("x = 1\n", "x = 2\n", "x = 1\n")):
        (tmp_path / "digested" / "a.py").write_text(text)
        (tmp_path / "digested" / "a.pyc").write_text(str(number))
        seen.append(sources.SourceDigests((("digested", "digested"),))["digested"])
    assert seen[0] == seen[2] != seen[1]
