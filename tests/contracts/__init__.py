"""Contract suites: what every implementation of a port has to do, whoever wrote it."""

import pytest

pytest.register_assert_rewrite("tests.contracts.store")
