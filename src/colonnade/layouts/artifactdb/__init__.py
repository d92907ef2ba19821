"""Data frames of ArtifactDB in all their generations; docs/decisions.md says where we differ from others."""
