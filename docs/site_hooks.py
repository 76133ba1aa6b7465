"""What the site adds to the pages: formulas as MathML, and the reference of the command.

Both are made while the site is built, so that a page needs no script and no service to be read.
"""

from __future__ import annotations

import html
import re
from typing import Any

FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.S)
COMMANDS = "<!-- commands -->"
BRACE = "<mo>&#x23DF;</mo>"  # under a term, as wide as the term


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put what the command says of itself where its reference asks for it."""
    return markdown.replace(COMMANDS, commands()) if COMMANDS in markdown else markdown


def on_page_content(content: str, **_: Any) -> str:
    """Turn TeX into MathML, which browsers draw by themselves."""
    return FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    tex = html.unescape(match[2]).strip()
    display = "block" if tex.startswith(r"\[") else "inline"
    made = str(convert(tex[2:-2].strip(), display=display))
    return made.replace(BRACE, BRACE.replace("<mo>", '<mo stretchy="true">'))


def commands() -> str:
    """Describe every command: what it does, its arguments and options, its examples."""
    from typer.main import get_command

    from tell.cli.main import app

    group = get_command(app)
    return "\n\n".join(_describe(name, one) for name, one in group.commands.items())  # type: ignore[attr-defined]


def _describe(name: str, command: Any) -> str:
    about, _, examples = (command.help or "").partition("[bold]Examples[/]")
    rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
    parts = [f"## tell {name}", _plain(about).replace("\b", "").strip()]
    if examples:
        lines = [line.strip() for line in _plain(examples).strip().splitlines()]
        parts.append("\n".join(["```text", *lines, "```"]))
    parts.append("\n".join(["| option | meaning |", "| --- | --- |", *rows]))
    return "\n\n".join(parts)


def _row(parameter: Any) -> str:
    argument = parameter.param_type_name == "argument"
    names = [parameter.metavar or parameter.name.upper()] if argument else parameter.opts
    shown = ", ".join(f"`{name}`" for name in names)
    meaning = _plain(getattr(parameter, "help", None) or "").replace("|", "\\|")
    default = getattr(parameter, "show_default", False) and parameter.default
    return f"| {shown} | {meaning}{f' Default: `{default}`.' if default else ''} |"


def _plain(text: str) -> str:
    """Turn rich's [bold]x[/] into Markdown, and keep the other brackets."""
    return re.sub(r"\[bold\](.*?)\[/\]", r"**\1**", text)
