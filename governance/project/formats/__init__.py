"""How moments are written on every page, in the place of the language's own way."""
