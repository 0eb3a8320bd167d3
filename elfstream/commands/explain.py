"""`elfstream explain`: how a question will be answered, without reading a log."""

from __future__ import annotations

from pathlib import Path

import click

from elfstream.commands.options import EXIT_CODES, format_option, parameter_values, server_config_option

EPILOG = """\b
Examples:
  elfstream explain "SELECT path, count(*) FROM access WHERE status = 404 GROUP BY path"
  elfstream explain --spark "SELECT avg(request_time) FROM access" --format ingress_nginx
"""


@click.command("explain", epilog=EPILOG + EXIT_CODES, short_help="Print the typed plan of a question, or its Spark SQL.")
@click.argument("sql")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@format_option
@server_config_option
@click.option(
    "--source", default="access", show_default=True, metavar="NAME", help="The table's name after FROM."
)
@click.option("--param", multiple=True, metavar="N=V", help="The value of :n in the SQL; may be repeated.")
@click.option("--spark", is_flag=True, help="Print the same question as Spark SQL instead.")
def command(
    sql: str,
    files: tuple[str, ...],
    format_: str,
    server_config: Path | None,
    source: str,
    param: tuple[str, ...],
    spark: bool,
) -> None:
    """Print the typed plan of a question, or Spark SQL that means the same, without reading a whole log.

    The fields and their types are those of --format; auto looks into FILE, or takes combined when there is none.
    """
    parameters = parameter_values(param)
    import elfstream as elf
    from agent.files import Inputs
    from agent.log_format import resolve_format
    from elfstream.embedded import paths_of

    if not files and format_.lower() == "auto":
        format_ = "combined"
    format, _ = resolve_format(format_, Inputs(paths_of(files)), server_config)
    plan = elf.compile_plan(sql, format, source, parameters)
    if spark:
        click.echo(plan.to_spark_sql())
        return
    from job.explain import explain

    click.echo(explain(plan).rstrip("\n"))
