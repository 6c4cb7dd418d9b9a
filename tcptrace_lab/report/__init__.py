"""Pictures: the only importer of plotting libraries."""
