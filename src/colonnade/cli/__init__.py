"""The command line: what is in a file, for people and (with --json) for programs.

A command is declared in `commands.py` and done in the file of its name, which gathers plain facts
(dicts, lists, text, numbers) and shows them: as text, or as one JSON object with the same facts.

Starts fast: this file, `commands.py` and `answer.py` import click alone; a command's own file,
which may import anything, is loaded when the command is called.
"""

from colonnade.cli.commands import main

__all__ = ["main"]
