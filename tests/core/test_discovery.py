"""Plugins are found by metadata, loaded each on its own, and what is wrong with one is said and harms no other."""

from __future__ import annotations

import random
import sys
import textwrap
import warnings

import pytest
from plugin_source import plugin

from rllm_renderer_core import (
    BackendUnavailableError,
    DuplicatePluginError,
    IncompatiblePluginError,
    PluginError,
    RendererWarning,
    plugins,
    select_backend,
)
from rllm_renderer_core.plugin import discovery

pytestmark = pytest.mark.usefixtures("core_alone")


def states(**options):
    return {info.name: info.state for info in plugins(**options)}


def error_of(name, **options):
    return next(info.error for info in plugins(check=True, **options) if info.name == name)


def backends():
    """Names of all usable backends, with the warnings' texts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        registered = discovery.load_backends().registered
    return [each.backend.name for each in registered], [str(each.message) for each in caught]


# Finding


def test_without_plugins_there_is_no_backend():
    assert backends() == ([], [])
    assert plugins() == []


def test_plugin_is_found_with_its_metadata(install):
    info = install("rllm-renderer-a", "2.1", plugin("a"))
    (found,) = plugins()
    assert (found.name, found.distribution, found.version, found.state) == ("a", "rllm-renderer-a", "2.1", "found")
    assert found.location == str(info)


def test_checking_loads_it_and_names_its_backends(install):
    install("rllm-renderer-a", source=plugin("a", "b"))
    (found,) = plugins(check=True)
    assert (found.state, found.error, found.backends) == ("loaded", None, ("a", "b"))


def test_an_install_counts_at_the_next_call(install):
    assert backends()[0] == []
    install("rllm-renderer-a", source=plugin("a"))
    assert backends()[0] == ["a"]


def test_backends_keep_the_order_of_their_hook(install):
    install("rllm-renderer-a", source=plugin("z", "m", "b"))
    assert backends()[0] == ["z", "m", "b"]


def test_a_group_of_another_name_is_no_plugin(install):
    install("other", source=plugin("a"), group="rllm_renderers")
    assert plugins() == []


# An entry-point module that imports something heavy


def test_listing_plugins_imports_none(install):
    install("rllm-renderer-a", source="import torch_that_is_not_there\nraise AssertionError")
    before = set(sys.modules)
    assert states() == {"a": "found"}
    assert not [name for name in set(sys.modules) - before if name.startswith("plugin_")]


# Broken plugins

BROKEN = {
    "import error": ("import not_there_at_all", "module 'not_there_at_all' is missing"),
    "system exit": ("raise SystemExit(3)", "SystemExit: 3"),
    "exit without words": ("import sys; sys.exit()", "SystemExit"),
    "half-way": ("ok = 1\nraise RuntimeError('half-way')", "RuntimeError: half-way"),
    "syntax": ("def", "SyntaxError"),
    "no hook": ("x = 1", "it has no @hookimpl named rllm_renderer_backends"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_plugin_is_recorded_and_the_others_go_on(install, name):
    source, cause = BROKEN[name]
    install("rllm-renderer-bad", "0.3", source)
    install("rllm-renderer-good", source=plugin("good"))
    names, warned = backends()
    assert names == ["good"]
    (text,) = warned
    assert text.startswith("plugin 'bad' of rllm-renderer-bad 0.3: installed but broken: ") and cause in text
    assert "fix: " in text and "RLLM_RENDERER_DISABLED=bad" in text
    assert states(check=True) == {"bad": "broken", "good": "loaded"}
    assert cause in error_of("bad")


def test_asking_for_a_broken_backend_raises_its_cause(install):
    install("rllm-renderer-bad", source="raise RuntimeError('half-way')")
    with pytest.warns(RendererWarning), pytest.raises(BackendUnavailableError, match="half-way") as caught:
        select_backend("toy/toy-1", backend="bad")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_several_broken_plugins_harm_no_good_one(install):
    for number, (source, _) in enumerate(BROKEN.values()):
        install(f"rllm-renderer-bad{number}", source=source)
    install("rllm-renderer-good", source=plugin("good"))
    names, warned = backends()
    assert names == ["good"] and len(warned) == len(BROKEN)


def test_missing_module_of_upstream_is_broken_and_not_missing(install):
    install("rllm-renderer-a", source="import upstream_y.part", modules={"upstream_y": "", "upstream_y.other": ""})
    text = error_of("a")
    assert "installed but broken: module 'upstream_y.part' is missing" in text
    assert "pip install --force-reinstall rllm-renderer-a" in text
    with pytest.warns(RendererWarning), pytest.raises(BackendUnavailableError) as caught:
        select_backend("toy/toy-1", backend="a")
    assert "isn't installed" not in str(caught.value)


def test_not_installed_is_another_word():
    with pytest.raises(BackendUnavailableError, match=r"backend 'nowhere' isn't installed"):
        select_backend("toy/toy-1", backend="nowhere")


def test_keyboard_interrupt_passes(install):
    install("rllm-renderer-a", source="raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        discovery.load_backends()
    with pytest.raises(KeyboardInterrupt):
        plugins(check=True)


def test_a_broken_plugin_is_warned_about_once(install):
    install("rllm-renderer-bad", source="raise RuntimeError('x')")
    install("rllm-renderer-good", source=plugin("good"))
    assert len(backends()[1]) == 1
    assert backends()[1] == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        select_backend("toy/toy-1", backend="good")


def test_strict_raises_the_first_broken_plugin(install, monkeypatch):
    install("rllm-renderer-bad", source="raise RuntimeError('x')")
    monkeypatch.setenv("RLLM_RENDERER_STRICT", "1")
    with pytest.raises(PluginError, match="installed but broken: RuntimeError: x") as caught:
        discovery.load_backends()
    assert (caught.value.plugin, caught.value.distribution, caught.value.version) == ("bad", "rllm-renderer-bad", "1.0")
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("value", ["", "0"])
def test_strict_is_off_for_empty_and_zero(install, monkeypatch, value):
    install("rllm-renderer-bad", source="raise RuntimeError('x')")
    monkeypatch.setenv("RLLM_RENDERER_STRICT", value)
    assert backends()[0] == []


def test_listing_never_raises_even_strict(install, monkeypatch):
    monkeypatch.setenv("RLLM_RENDERER_STRICT", "1")
    install("rllm-renderer-bad", source="raise RuntimeError('x')")
    install("rllm-renderer-one", source=plugin("same"), plugin="twin")
    install("rllm-renderer-two", source=plugin("same"), plugin="twin")
    assert states(check=True) == {"bad": "broken", "twin": "duplicate"}


# Wrong hooks

HOOK = "from rllm_renderer_core import hookimpl\n@hookimpl\n"
WRONG = {
    "None": (HOOK + "def rllm_renderer_backends(): return None", "returned None"),
    "one backend": (plugin("a").replace("return [B0()]", "return B0()"), "must return a list of Backend, not B0"),
    "text": (HOOK + "def rllm_renderer_backends(): return 'prime'", "must return a list of Backend, not str"),
    "a number": (HOOK + "def rllm_renderer_backends(): return 3", "must return a list of Backend, not int"),
    "list of text": (HOOK + "def rllm_renderer_backends(): return ['x']", "must return Backend instances, not str"),
    "a class": (plugin("a").replace("return [B0()]", "return [B0]"), "must return Backend instances, not type"),
    "lazy failure": (HOOK + "def rllm_renderer_backends():\n yield 1/0", "ZeroDivisionError"),
    "typo in name": (HOOK + "def rllm_renderer_backend(): return []", "rllm_renderer_backend"),
    "priority is text": (plugin("a", priority="high"), "needs an int as priority, not 'high'"),
    "priority is True": (plugin("a", priority=True), "needs an int as priority, not True"),
    "empty name": (plugin(""), "has no name"),
    "extra argument": (HOOK + "def rllm_renderer_backends(config): return []", "config"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_hook_is_skipped_with_the_reason(install, name):
    source, reason = WRONG[name]
    install("rllm-renderer-bad", source=source)
    install("rllm-renderer-good", source=plugin("good"))
    assert backends()[0] == ["good"]
    assert reason in error_of("bad")


def test_no_backends_is_fine(install):
    install("rllm-renderer-a", source=HOOK + "def rllm_renderer_backends(): return []")
    assert states(check=True) == {"a": "loaded"}


def test_a_generator_of_backends_is_fine(install):
    install("rllm-renderer-a", source=plugin("a").replace("return [B0()]", "yield B0()"))
    assert backends()[0] == ["a"]


def test_an_entry_point_may_name_a_class(install):
    source = textwrap.dedent("""
        from rllm_renderer_core import hookimpl
        class plugin:
            @staticmethod
            @hookimpl
            def rllm_renderer_backends():
                return []
    """)
    install("rllm-renderer-a", entry_points={"a": "mod_a:plugin"}, modules={"mod_a": source})
    assert states(check=True) == {"a": "loaded"}


# Versions that don't fit


def test_plugin_for_a_core_api_that_is_gone_is_skipped(install):
    install("rllm-renderer-a", source="rllm_renderer_api = 7\n" + plugin("a"))
    assert "needs core API 7, this is 1" in error_of("a")
    assert states(check=True) == {"a": "incompatible"}
    assert backends()[0] == []


def test_plugin_that_names_this_core_api_loads(install):
    install("rllm-renderer-a", source="rllm_renderer_api = 1\n" + plugin("a"))
    assert states(check=True) == {"a": "loaded"}


def test_core_requirement_is_checked_before_any_import(install):
    install("rllm-renderer-a", source="raise AssertionError", requires=["rllm_renderer.core>=9", "not a requirement!"])
    assert states() == {"a": "incompatible"}
    assert "needs rllm-renderer-core>=9, this is " in error_of("a")


def test_requirement_of_another_platform_or_extra_does_not_count(install):
    requires = ["rllm-renderer-core>=9; sys_platform == 'plan9'", "rllm-renderer-core>=9; extra == 'dev'"]
    install("rllm-renderer-a", source=plugin("a"), requires=requires)
    assert states(check=True) == {"a": "loaded"}


def test_strict_raises_for_an_incompatible_plugin(install, monkeypatch):
    monkeypatch.setenv("RLLM_RENDERER_STRICT", "1")
    install("rllm-renderer-a", source="rllm_renderer_api = 7")
    with pytest.raises(IncompatiblePluginError, match="needs core API 7"):
        discovery.load_backends()


# The same twice, and two of the same name


def test_dist_info_beside_egg_info_is_one_plugin(install, tmp_path):
    site = tmp_path / "site"
    install("rllm-renderer-a", source=plugin("a"), path=site)
    egg = site / "rllm_renderer_a.egg-info"
    egg.mkdir()
    (egg / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: rllm-renderer-a\nVersion: 1.0\n")
    (egg / "entry_points.txt").write_text((site / "rllm_renderer_a-1.0.dist-info" / "entry_points.txt").read_text())
    assert states(check=True) == {"a": "loaded"}
    assert backends()[0] == ["a"]


def test_a_symlinked_path_is_one_plugin(install, tmp_path, monkeypatch):
    install("rllm-renderer-a", source=plugin("a"), path=tmp_path / "site")
    (tmp_path / "link").symlink_to(tmp_path / "site")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(tmp_path / "link"))
        assert states(check=True) == {"a": "loaded"}
        assert backends()[0] == ["a"]


def test_an_entry_point_listed_twice_is_one_plugin(install):
    info = install("rllm-renderer-a", source=plugin("a"))
    text = (info / "entry_points.txt").read_text()
    (info / "entry_points.txt").write_text(text + text.splitlines()[1] + "\n")
    assert states(check=True) == {"a": "loaded"}


def test_one_name_with_two_values_is_said_and_not_loaded(install, monkeypatch):
    info = install("rllm-renderer-a", source=plugin("a"), modules={"mod_b": "raise AssertionError"})
    install("rllm-renderer-good", source=plugin("good"))
    text = (info / "entry_points.txt").read_text()
    value = text.splitlines()[1].partition(" = ")[2]
    (info / "entry_points.txt").write_text(text + "a = mod_b\n")
    names, warned = backends()
    assert names == ["good"] and states(check=True) == {"a": "broken", "good": "loaded"}
    assert f"its entry_points.txt has {value!r} and 'mod_b' under this one name" in error_of("a") and len(warned) == 1
    assert value not in sys.modules and "mod_b" not in sys.modules
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "a")
    assert states() == {"a": "disabled", "good": "found"}


def test_the_same_name_from_two_distributions_is_an_error_that_names_both(install):
    install("rllm-renderer-one", "1.1", plugin("x"), plugin="twin")
    install("rllm-renderer-two", "2.2", plugin("y"), plugin="twin")
    with pytest.raises(DuplicatePluginError) as caught:
        select_backend("toy/toy-1")
    text = str(caught.value)
    assert "rllm-renderer-one 1.1" in text and "rllm-renderer-two 2.2" in text and "RLLM_RENDERER_DISABLED=" in text


def test_its_fix_works(install, monkeypatch):
    install("rllm-renderer-one", source=plugin("x"), plugin="twin")
    install("rllm-renderer-two", source=plugin("y"), plugin="twin")
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "rllm-renderer-two")
    assert backends()[0] == ["x"]


def test_the_same_backend_from_two_plugins_is_an_error_that_names_both(install):
    install("rllm-renderer-one", source=plugin("same"))
    install("rllm-renderer-two", source=plugin("same"))
    with pytest.raises(DuplicatePluginError) as caught:
        select_backend("toy/toy-1")
    assert "rllm-renderer-one" in str(caught.value) and "rllm-renderer-two" in str(caught.value)
    assert states(check=True) == {"one": "duplicate", "two": "duplicate"}


def test_order_of_installs_never_changes_what_is_found(install, monkeypatch):
    for name in ("b", "c", "a", "d"):
        install(f"rllm-renderer-{name}", source=plugin(name))
    expected = backends()
    for seed in range(20):
        path = list(sys.path)
        random.Random(seed).shuffle(path)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", path)
            assert backends() == expected


# Blocking


@pytest.mark.parametrize("value", ["a", "A", "rllm-renderer-a", "rllm_renderer.A", " x , a ,", "*"])
def test_disabled_plugin_is_never_imported(install, monkeypatch, value):
    install("rllm-renderer-a", source="raise AssertionError")
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", value)
    assert states(check=True) == {"a": "disabled"}
    assert backends() == ([], [])
    assert "switched off by RLLM_RENDERER_DISABLED" in error_of("a")


@pytest.mark.parametrize("value", ["", ",", "b", "rllm-renderer-b", "rllm"])
def test_disabling_others_leaves_it(install, monkeypatch, value):
    install("rllm-renderer-a", source=plugin("a"))
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", value)
    assert states(check=True) == {"a": "loaded"}


@pytest.mark.parametrize("value", ["", " , ", "b", "rllm-renderer-b"])
def test_a_plugin_that_is_not_allowed_is_never_imported(install, monkeypatch, value):
    install("rllm-renderer-a", source="raise AssertionError")
    monkeypatch.setenv("RLLM_RENDERER_PLUGINS", value)
    assert states(check=True) == {"a": "disabled"}
    assert backends() == ([], [])
    assert "not listed in RLLM_RENDERER_PLUGINS" in error_of("a")


@pytest.mark.parametrize("value", ["a", "rllm-renderer-a", "b,a", "*"])
def test_an_allowed_plugin_loads(install, monkeypatch, value):
    install("rllm-renderer-a", source=plugin("a"))
    monkeypatch.setenv("RLLM_RENDERER_PLUGINS", value)
    assert states(check=True) == {"a": "loaded"}


def test_disabled_counts_more_than_allowed(install, monkeypatch):
    install("rllm-renderer-a", source="raise AssertionError")
    monkeypatch.setenv("RLLM_RENDERER_PLUGINS", "a")
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "a")
    assert states(check=True) == {"a": "disabled"}


def test_asking_for_a_disabled_backend_says_which_variable(install, monkeypatch):
    install("rllm-renderer-a", source=plugin("a"))
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "a")
    with pytest.raises(BackendUnavailableError, match="switched off by RLLM_RENDERER_DISABLED"):
        select_backend("toy/toy-1", backend="a")


def test_disabled_plugins_are_no_error_under_strict(install, monkeypatch):
    install("rllm-renderer-a", source=plugin("a"))
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "a")
    monkeypatch.setenv("RLLM_RENDERER_STRICT", "1")
    assert backends()[0] == []


# Metadata as found in the wild


def test_metadata_without_a_name_is_no_crash(install):
    info = install("rllm-renderer-a", source=plugin("a"))
    (info / "METADATA").unlink()
    assert [found.state for found in plugins(check=True)] in (["loaded"], ["broken"], [])
    discovery.load_backends()


def test_broken_entry_point_text_is_no_crash(install):
    info = install("rllm-renderer-a", source=plugin("a"))
    (info / "entry_points.txt").write_text("[rllm_renderer]\na = \nno equals sign\n")
    install("rllm-renderer-b", source=plugin("b"))
    assert "b" in {found.name for found in plugins(check=True)}
