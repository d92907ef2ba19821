"""The command that writes docs/checking.md from the rules that the checker has and the files of the conformance kit.

python -m tools.rules_page            writes the page
python -m tools.rules_page --check    fails when the page is not true
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.layouts.checks import CHECKS as ALL_CHECKS
from colonnade.model import Rule
from colonnade.sparse.verify import RULES as SPARSE_RULES
from tools.types_page import table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "checking.md"
KIT = ROOT / "tests" / "conformance"
CHECKS = ALL_CHECKS["hep001"]
ANNDATA = ALL_CHECKS["anndata"]
ARTIFACTDB = ALL_CHECKS["artifactdb"]

HEAD = """# Checking files

This page is written by `python -m tools.rules_page` from the rules that the checker has; a test keeps it true.

    colonnade check run.h5                  every rule on every table, by headers and attributes
    colonnade check run.h5 --deep           also every value, and every search index against its column
    colonnade check frame/                  a data frame of ArtifactDB: its directory, its file, or its JSON metadata
    colonnade check run.h5 --json           for programs; --sarif for services that show findings
    colonnade fix run.h5 --dry-run          what could be mended without touching data
    colonnade fix run.h5                    mends it, as one commit

```python
found = cn.check("run.h5", deep=True)  # a list of Finding, the worst first; empty when all is well
for one in found:
    one.rule, one.severity, one.path, one.message, one.clause, one.found, one.expected, one.advice
found.checked  # how much was looked at: tables, columns, attributes, sparse_arrays, bytes_read
mended = cn.fix("run.h5", dry_run=True)  # mended.repairs, and mended.left: findings that stay
```

A bad file is never an error of `check`: what goes wrong while looking is a finding (rule H1). A deep check reads every
row once, a few MiB at a time. Rows that lie in other files (external and virtual storage) are not read.

| severity | means |
| --- | --- |
| error | a MUST of the standard is broken, or a thing cannot be read |
| warning | a SHOULD is broken, or a right value is stored as colonnade would not store it |
| note | worth knowing: unknown index kinds, foreign objects, links that were not followed |

Exit codes of `colonnade check`: 0 no errors; 1 errors (with `--strict` also warnings), or nothing to check; 2 usage;
3 not readable as HDF5. `--severity warning` hides notes, `--severity error` warnings too; the exit code stays. Of
`colonnade fix`: 1 when errors are left.

`fix` never touches rows of columns, labels or categories. It rewrites attributes that hold the right thing in the wrong
storage, adds the missing side of references and takes out those that lead nowhere, writes `column-order` anew, removes
an `_index` that names nothing (or sets it to the first label), and builds search indexes anew that are wrong or broken
(an index for which no single column can be made out, or whose column cannot have one, is dropped). A second run changes
nothing.

## The rules
Numbers are those that findings carry; H1 is the ground under the others. Severities are those of the files in
`tests/conformance`, the kit with which any implementation can test its own checker.

"""

ELEMENTS = """
## AnnData elements
What says by `encoding-type` that it is an element, its frames, and what 0.7 and before would know by its looks, is held
to these; their kit is `tests/conformance/anndata`. Matrices and arrays are read by blocks, and only by `--deep`. `fix`
changes none of them, with two exceptions: search indexes of frames are built anew (A15, S8), or dropped, as those of
tables; and a frame around a HEP001 table is made to show what the table says (A16), where it has no data of its own.

"""

FRAMES = """
## ArtifactDB data frames
Their numbers begin with D, so that they are no one else's: DG groups, DD columns, DF factors, DV strings by pointers,
DM missing rows, DJ the JSON metadata, DO the directory. A file is given itself, by its metadata (`x.h5.json`), or as
the directory that dolomite-base saves. Which rules apply is what it says: `version` on the group (versioned), the
directory it lies in, or else the metadata (legacy). `--generation` (and `cn.check(generation=)`) holds it to others:
`versioned`, `directory`, or `legacy:2/1`, the versions of hdf5_data_frame and data_frame. Clauses are headings of
ArtifactDB's specification of hdf5_data_frame, its JSON schema, or takane's data_frame. Paths in documents are their
name, # and a JSON pointer. The sum of the file is compared only by `--deep`. Tests hold the rules to dolomite-base's
validator and to the public schema; the kit is `tests/conformance/artifactdb`. `fix` does not change data frames.

"""

SPARSE = """
## Sparse arrays
Arrays in sectioned chunks, which no HDF5 library opens, are read by colonnade itself and held to these. `fix` does not
change them.

"""

MIDDLE = """
## Numbers that no file shows
"""


def found_as(rule: Rule, own: list[dict[str, Any]]) -> tuple[str, str]:
    """How the files of a rule show it: the severities, and whether only or also in values."""
    found = [one for entry in own for one in entry["expected"] if one["rule"] == rule.id]
    severities = [word for word in ("error", "warning", "note") if word in {one["severity"] for one in found}]
    return ", ".join(severities), "only" if all(one["deep"] for one in found) else "also" if rule.deep else ""


def plain_rows(rules: Sequence[Rule], kit: Path) -> list[list[str]]:
    """Of rules whose breaches are not mended."""
    files = json.loads((kit / "manifest.json").read_text())["files"]
    return [
        [rule.id, rule.clause, rule.says, *found_as(rule, [one for one in files if one["rule"] == rule.id])]
        for rule in rules
    ]


def rule_rows(files: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for rule in CHECKS.rules:
        own = [entry for entry in files if entry["rule"] == rule.id and entry["expected"]]
        fixable = {entry["fixable"] for entry in own}
        mends = "yes" if fixable == {True} else "no" if fixable == {False} else "some"
        rows.append([rule.id, rule.clause, rule.says, *found_as(rule, own), mends])
    return rows


def page_text() -> str:
    """The page as it should be."""
    files = json.loads((KIT / "manifest.json").read_text())["files"]
    rules = table(["rule", "HEP001", "says", "found as", "deep", "`fix`"], rule_rows(files))
    not_shown = {number: why for checks in ALL_CHECKS.values() for number, why in checks.not_shown.items()}
    others = table(["number", "why"], [[number, why] for number, why in not_shown.items()])
    sparse = table(["rule", "says", "found as", "deep"], [_sparse_row(rule) for rule in SPARSE_RULES.values()])
    head = ["says", "found as", "deep"]
    elements = table(["rule", "AnnData", *head], plain_rows(ANNDATA.rules, KIT / "anndata"))
    frames = table(["rule", "ArtifactDB", *head], plain_rows(ARTIFACTDB.rules, KIT / "artifactdb"))
    return HEAD + rules + ELEMENTS + elements + FRAMES + frames + SPARSE + sparse + MIDDLE + others


def _sparse_row(rule: Rule) -> list[str]:
    severity = "warning" if rule.id == "sparse.filter" else "error"
    return [rule.id, rule.says, severity, "only" if rule.id == "sparse.filter" else "also" if rule.deep else ""]


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        return 0 if PAGE.read_text() == page_text() else 1
    PAGE.write_text(page_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
