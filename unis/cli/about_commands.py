"""`unis doctor`, `schema` and `version`."""

import dataclasses
import json
from typing import Annotated, Any

import typer

import unis

# Not from unis.cli.options: `unis version` loads next to nothing.
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def doctor(as_json: JsonOption = False) -> None:
    """Check whether this machine can run UNiS. Each finding says what it means and what to do.

    Exit code 1 if something keeps `unis up` from working.

    Example: unis doctor
    """
    from unis.cli.terminal import out
    from unis.runtime.doctor import examine
    from unis.runtime.doctor.finding import Level

    findings = examine()
    if as_json:
        out.print_json(data=[dataclasses.asdict(finding) for finding in findings])
    else:
        from rich.table import Table
        from rich.text import Text

        style = {Level.OK: "green", Level.NOTE: "yellow", Level.BLOCKED: "bold red"}
        table = Table.grid(padding=(0, 2))
        for finding in findings:
            text = Text(finding.found)
            if finding.meaning:
                text += f"\n{finding.meaning}"
            if finding.mend:
                text += Text(f"\n→ {finding.mend}", "cyan")
            table.add_row(Text(finding.level, style[finding.level]), finding.check, text)
        out.print(table)
    if any(finding.level == Level.BLOCKED for finding in findings):
        raise typer.Exit(1)


def schema() -> None:
    """Print the JSON schema of the chain file (docs/chain-file.schema.json)."""
    typer.echo(schema_text(), nl=False)


def version(as_json: JsonOption = False) -> None:
    """Print the version."""
    typer.echo(json.dumps({"unis": unis.version()}) if as_json else unis.version())


def schema_text() -> str:
    """What docs/chain-file.schema.json holds."""
    from unis.chain.model import ChainFile

    schema = ChainFile.model_json_schema(by_alias=True)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    schema["title"] = "UNiS chain file"
    _allow_extensions(schema)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _allow_extensions(part: Any) -> None:
    """Keys x-… may stand in any mapping."""
    if isinstance(part, dict):
        if part.get("additionalProperties") is False:
            part["patternProperties"] = {"^x-": {}}
        for value in part.values():
            _allow_extensions(value)
    elif isinstance(part, list):
        for value in part:
            _allow_extensions(value)
