"""Property tests try the same cases every time: a test that needs luck proves nothing."""

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")
