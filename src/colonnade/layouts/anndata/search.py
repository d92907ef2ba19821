"""Search indexes of an AnnData data frame, in its member group `_search_indexes`.

anndata reads only what `column-order` and `_index` name, so it ignores the indexes; when it rewrites a frame, they are
lost. A column does not refer to its indexes, so its attributes are exactly those that anndata writes.
"""

from __future__ import annotations

from colonnade.layouts.anndata.describe import rows_of
from colonnade.layouts.anndata.names import check_has_one_face
from colonnade.layouts.named_indexes import NamedIndexes
from colonnade.nodes import EditableGroup


class FrameIndexes(NamedIndexes):
    def place_index(self, group: EditableGroup, column: str, kind: str) -> tuple[EditableGroup, str]:
        """The group for a new index of this kind, and an unused name in it."""
        check_has_one_face(group, "it")
        return super().place_index(group, column, kind)


PART = FrameIndexes(lambda group, column, _info: rows_of(group, column))
