"""Data frames of ArtifactDB: https://github.com/ArtifactDB, see docs/artifactdb.md."""
