"""What goes in and out: tables of other libraries as Arrow batches, Arrow batches as tables of other libraries."""
