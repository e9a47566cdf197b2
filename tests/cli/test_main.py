"""The entry point: without the extra, and how it treats what it can't do."""

import json

from rllm_renderer_core.plugin.distributions import install_command

WITHOUT = """
import sys
sys.modules[{name!r}] = None
from rllm_renderer_cli import main
sys.exit(main())
"""


def test_without_the_extra_one_line_says_how_to_get_it(python):
    for name in ("click", "rich"):
        done = python(WITHOUT.format(name=name))
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr == f"rllm-renderer: the command line needs {name}: {install_command('rllm-renderer-cli')}\n"


def test_help_lists_every_command_with_a_whole_line(run):
    from rllm_renderer_cli.app import COMMANDS

    result = run("--help")
    assert result.exit_code == 0
    for name in COMMANDS:
        line = next(line for line in result.stdout.splitlines() if line.startswith(f"  {name} "))
        assert not line.endswith("...")


def test_every_command_has_help(run):
    from rllm_renderer_cli.app import COMMANDS

    for name in COMMANDS:
        assert run(name, "--help").exit_code == 0


def test_calling_one_command_imports_no_other(python):
    done = python(
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from rllm_renderer_cli.app import cli\n"
        "assert CliRunner().invoke(cli, ['plugins']).exit_code == 0\n"
        "print(*[m for m in sys.modules if m.startswith('rllm_renderer_cli.')])"
    )
    assert done.returncode == 0, done.stderr
    assert {name.partition(".")[2] for name in done.stdout.split()} == {
        "app",
        "commands",
        "commands.plugins",
        "output",
        "wording",
    }


def test_a_wrong_call_is_one_line_and_status_2(run):
    for arguments in (["nonsense"], ["explain"], ["explain", "m", "--nonsense"], ["explain", "m", "--thinking-retention", "x"]):
        result = run(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.startswith("rllm-renderer: ") and result.stderr.count("\n") == 1


def test_the_version(run):
    from rllm_renderer_core import __version__

    assert __version__ in run("--version").stdout


def test_warnings_are_lines_on_stderr_and_leave_stdout_parseable(run, install, no_plugins):
    install("rllm-renderer-broken", source="raise ImportError('no such thing')")
    result = run("explain", "some/model", "--json")
    assert json.loads(result.stdout)["winner"] == "chat-template"
    assert result.stderr.startswith("rllm-renderer: warning: ") and ".py:" not in result.stderr


def test_token_text_survives_a_pipe_of_another_encoding(python):
    code = (
        "import sys, rllm_renderer_cli as c, click\n"
        "from rllm_renderer_cli import app\n"
        "app.cli = lambda prog_name: click.echo('\\u65e5')\n"
        "sys.stdout.reconfigure(encoding='latin-1')\n"
        "c.main()"
    )
    done = python(code)
    assert done.stdout == "\\u65e5\n", done.stderr
