"""Groups, datasets and attributes as the layers above the file see them, whoever reads them: our own reader of HDF5's
bytes (`format/`), or libhdf5 (`h5/`)."""

from colonnade.nodes.protocols import (
    Dataset,
    DatasetHandle,
    EditableDataset,
    EditableGroup,
    EditableNode,
    Group,
    GroupHandle,
    H5Attributes,
    H5Dataset,
    H5Group,
    H5Node,
    Node,
    NodeHandle,
)

__all__ = [
    "Dataset", "DatasetHandle", "EditableDataset", "EditableGroup", "EditableNode", "Group", "GroupHandle",
    "H5Attributes", "H5Dataset", "H5Group", "H5Node", "Node", "NodeHandle",
]  # fmt: skip
