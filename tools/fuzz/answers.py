"""What a file answered: every answer as a digest, every refusal by its name, and what must not have happened."""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colonnade.errors import ColonnadeError


@dataclass
class Answers:
    """What a file answered: by step, what must not have happened, and which columns of which tables were read."""

    steps: dict[str, str] = field(default_factory=dict)
    bugs: list[str] = field(default_factory=list)
    columns: list[tuple[str, str]] = field(default_factory=list)

    def ask(self, step: str, question: Callable[[], Any]) -> Any:
        """The answer, noted; None when it was refused."""
        return self._ask(step, question, digest)

    def ask_for(self, step: str, question: Callable[[], Any]) -> Any:
        """The same, of an object that is asked further: only that it was given is noted."""
        return self._ask(step, question, lambda _found: "= given")

    def _ask(self, step: str, question: Callable[[], Any], noted: Callable[[Any], str]) -> Any:
        try:
            found = question()
            self.steps[step] = noted(found)
            return found
        except ColonnadeError as error:
            self.steps[step] = f"refused: {type(error).__name__}"
        except MemoryError:
            self.bugs.append(f"memory: {step}: {_where()}")
        except RecursionError:
            self.bugs.append(f"recursion: {step}: {_where()}")
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            self.bugs.append(f"exception: {type(error).__name__}: {str(error)[:200]} | {_where()}")
        return None

    def agree(self, what: str, one: str, other: str) -> None:
        """Two ways to the same answer: where both answered, they must be equal."""
        answers = self.steps.get(one, "refused"), self.steps.get(other, "refused")
        if answers[0] != answers[1] and not any(answer.startswith("refused") for answer in answers):
            self.bugs.append(f"disagree: {what}: {one} and {other}")


def _where() -> str:
    """The innermost lines of ours that an exception came through."""
    frames = traceback.extract_tb(sys.exc_info()[2])
    ours = [frame for frame in frames if "/colonnade/" in frame.filename] or frames
    return " < ".join(
        f"{Path(f.filename).parent.name}/{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(ours[-4:])
    )


def digest(found: Any) -> str:
    return "= " + hashlib.sha1(repr(found).encode("utf-8", "surrogateescape")).hexdigest()[:16]
