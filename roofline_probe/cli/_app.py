"""The command group: commands are found by listing this folder and imported only when one is asked for."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from roofline_probe import __version__
from roofline_probe.cli import _streams
from roofline_probe.cli._options import Quiet, Verbose
from roofline_probe.errors import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED

_ORDER = ("measure", "show", "compare", "tail", "diff", "plan", "export")
"""The order of ``--help``: the way the tool is used. A command that is not named here comes after these."""


class CommandFolder(TyperGroup):
    """A group whose commands are the modules of this package; each defines ``app``, a ``typer.Typer``."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the modules beside this one that do not begin with an underscore."""
        from roofline_probe import cli

        found = [module.name for module in pkgutil.iter_modules(cli.__path__) if not module.name.startswith("_")]
        return sorted(found, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the module of that name and return its command, or None if there is no such module."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"roofline_probe.cli.{cmd_name}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C and a reader that has gone keep their own meaning instead of typer's "Aborted!"."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError:  # typer would make it exit code 1, which here means "gate not met"
            _streams.silence_stdout()
            raise typer.Exit(EXIT_BROKEN_PIPE) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"probe {__version__}")
        raise typer.Exit


def app() -> Any:
    """The whole command line as one callable command."""
    group = typer.Typer(
        cls=CommandFolder,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Two commands do most of it:  probe measure  on the card,  then  probe compare vllm.log",
    )

    @group.callback()
    def root(
        version: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
        ] = False,
        quiet: Quiet = False,
        verbose: Verbose = False,
    ) -> None:
        """Measure this card's own roofline, then see what fraction of it vLLM and SGLang achieve."""

    return typer.main.get_command(group)


def is_usage_error(error: Exception) -> bool:
    """Whether this is typer's own complaint about the command line (the class is private since typer carries click)."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def usage_sentence(error: Any) -> str:
    """Typer's complaint as one sentence that ends in where to look; empty where typer has shown the help instead."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "probe"
    message = str(error.format_message()).strip().rstrip(".")
    return f"{message} (see `{command} --help`)." if message else ""
