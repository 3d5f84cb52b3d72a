"""``probe tail``: live beside a serving engine, and never in its way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from roofline_probe.cli._options import (
    BetaOption,
    DtypeOption,
    EngineOption,
    ModelOption,
    PiOption,
    ProfileOption,
    Quiet,
    RoofOption,
    Verbose,
    is_quiet,
)
from roofline_probe.cli._targets import check_targets
from roofline_probe.errors import UsageError

app = typer.Typer(add_completion=False)

_EPILOG = """Examples:  vllm serve MODEL --enable-mfu-metrics 2>&1 | probe tail  ·
probe tail -- vllm serve MODEL --enable-mfu-metrics  ·  probe tail -f server.log --json  ·  probe tail http://host:8000/metrics"""
_COMMAND = "roofline_probe.tail.command"


class TailCommand(TyperCommand):
    """Takes what stands behind ``--`` for the server's own command line, options and all."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Set the server's command aside."""
        if "--" in args:
            position = args.index("--")
            ctx.meta[_COMMAND] = args[position + 1 :]
            args = args[:position]
            if not ctx.meta[_COMMAND]:
                raise UsageError("No command stands behind `--`; write `probe tail -- vllm serve MODEL ...`.")
        return super().parse_args(ctx, args)


@app.command(cls=TailCommand, epilog=_EPILOG)
def tail(
    ctx: typer.Context,
    urls: Annotated[
        list[str] | None,
        typer.Argument(metavar="[URL...] [-- COMMAND...]", help="Addresses of /metrics, or a server to start."),
    ] = None,
    follow: Annotated[
        Path | None, typer.Option("-f", "--follow", metavar="FILE", help="Follow a file by name, as `tail -F` does.")
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--last",
            min=0,
            max=1_000_000,
            metavar="N",
            help="With -f: show the file's last N windows (10) before the new ones. The summary is of the whole file.",
        ),
    ] = None,
    interval: Annotated[
        float | None, typer.Option("--interval", metavar="SECONDS", help="With URLs: between scrapes (5).")
    ] = None,
    tee: Annotated[Path | None, typer.Option("--tee", metavar="FILE", help="Append the raw log to a file.")] = None,
    pass_lines: Annotated[
        bool, typer.Option("--pass", help="Show every line of the engine, not only warnings and errors.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a window, then one with the summary.")] = False,
    profile: ProfileOption = None,
    roof: RoofOption = "auto",
    pi: PiOption = None,
    beta: BetaOption = None,
    model: ModelOption = None,
    dtype: DtypeOption = None,
    engine: EngineOption = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Watch a serving engine live: which roof it is under, how near, and where its step goes."""
    from roofline_probe.comparison import choose
    from roofline_probe.tail.app import Request, run

    command = ctx.meta.get(_COMMAND, [])
    _refuse_mixtures(urls or [], follow, command)
    if last is not None and follow is None:
        raise UsageError("--last belongs to -f FILE; other inputs have no steps before the first one.")
    if interval is not None and not urls:
        raise UsageError("--interval belongs to addresses of /metrics; a log is read as it is written.")
    check_targets({"--tee": tee}, [profile, model])
    options, found, name = choose(roof, profile, pi, beta, model, dtype)
    request = Request(
        follow=follow,
        urls=tuple(urls or ()),
        command=tuple(command),
        last=last if last is not None else Request.last,
        interval_s=interval if interval is not None else Request.interval_s,
        tee=tee,
        pass_lines=pass_lines,
        json=json,
        engine=engine,
        quiet=is_quiet(),
    )
    return run(request, found, name, options)


def _refuse_mixtures(urls: list[str], follow: Path | None, command: list[str]) -> None:
    """One input a run.

    Raises:
        UsageError: an argument that is no address, or two inputs at once.
    """
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise UsageError(
                f"{url} is not an address of /metrics; follow a file with -f {url}, start a server with -- {url} ..."
            )
    if bool(urls) + (follow is not None) + bool(command) > 1:
        raise UsageError("Give one input: addresses, -f FILE, or -- COMMAND.")
