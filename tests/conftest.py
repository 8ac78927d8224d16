"""What every test may count on."""

from hypothesis import settings

# No time limit for a single example: a busy machine is slow, and that is no failure.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
