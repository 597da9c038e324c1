"""A store as files to browse and as lines to export and import."""
