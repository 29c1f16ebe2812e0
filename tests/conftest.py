"""What all tests share."""

import os

from hypothesis import settings

# A test never asserts a time. Where CI is set, the examples are the same in every run, so that a change lands or not
# by what it does; elsewhere new ones are tried each time.
settings.register_profile(
    "project", settings.get_profile("default"), deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("project")
