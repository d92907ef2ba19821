"""The command line: shows what is in a file, as text or (with --json) as JSON.

A command is declared in `commands.py` and implemented in the module of its name, which gathers plain data (dicts,
lists, strings, numbers) and shows it: as text, or as one JSON object with the same facts.

Starts fast: this file, `commands.py` and `answer.py` import only click; a command's own module, which may import
anything, is loaded when the command is called.
"""

from colonnade.cli.commands import main

__all__ = ["main"]
