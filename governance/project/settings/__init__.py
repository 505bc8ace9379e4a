"""The settings, read from the environment and nowhere else.

* `environment`: how a variable is read, and how a bad one is refused
* `installation`: what an installation runs under
* `paper`: what `manage.py explain` runs under: no environment, no database
* `demo_environment`: the environment of the demo, made once and kept

Nothing is imported here: importing `settings.paper` imports this module first, and must not need any
variable.
"""
