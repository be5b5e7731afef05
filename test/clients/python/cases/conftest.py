import fcntl
import os
import uuid

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: no case of any client runs beside this one")


@pytest.fixture
def word(request):
    """word is unique, and names the case."""
    return f"{request.function.__name__}-{uuid.uuid4().hex[:12]}"


@pytest.fixture(autouse=True)
def _beside_others(request):
    """A case shares the bed, or has it for itself: the clients are processes of their own."""
    kind = fcntl.LOCK_EX if request.node.get_closest_marker("alone") else fcntl.LOCK_SH
    with open(os.environ["BED_ALONE"], "w") as lock:
        fcntl.flock(lock, kind)
        yield
