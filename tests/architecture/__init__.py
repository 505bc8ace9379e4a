"""The rules of the project's shape that import-linter cannot see."""
