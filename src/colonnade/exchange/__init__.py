"""Convert tables of other libraries to Arrow batches, and Arrow batches to tables of other libraries."""
