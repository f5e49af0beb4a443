"""The supervisor of sandboxes: it launches, watches, kills and collects, and knows no secret.

It stands on the standard library, so that a process with no settings, no database and no key can
hold the only door through which untrusted code runs. Start it with `python -m apps.sandboxd`.
"""
