"""The tests mirror the tree. `tests/servers` starts real servers, `tests/architecture` keeps the shape of
the project."""
