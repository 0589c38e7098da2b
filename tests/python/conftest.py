"""No test asserts how long something takes: machines differ, and others work on them too."""

from hypothesis import settings

settings.register_profile("unis", deadline=None)
settings.load_profile("unis")
