from importlib.metadata import version

import demo


def test_total():
    assert demo.total([2, 3]) == 5


def test_version():
    assert version("demo") == "1.2.3"
