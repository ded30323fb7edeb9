"""The install secret is made once, kept private, and never replaced by accident."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from proxy.adapters.secret import beside, install_secret
from proxy.errors import StoreError


def test_made_once_beside_the_store(tmp_path: Path) -> None:
    """Two installs differ; one install keeps its own, in a file that only its owner reads."""
    store = tmp_path / "made" / "compaction.db"
    secret = install_secret(store)
    assert len(secret) == 32
    assert install_secret(store) == secret
    assert install_secret(tmp_path / "compaction.db") != secret
    (file,) = store.parent.iterdir()
    assert file.name == "compaction.db.secret"
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_not_made_where_it_may_not_be(tmp_path: Path) -> None:
    """What is there is read all the same."""
    store = tmp_path / "c.db"
    with pytest.raises(StoreError, match="install secret"):
        install_secret(store, make=False)
    assert not beside(store).exists()
    assert install_secret(store) == install_secret(store, make=False)


def test_many_writers_agree(tmp_path: Path) -> None:
    """Whoever comes first wins, all get the same, and no draft is left behind."""
    with ThreadPoolExecutor(8) as pool:
        secrets = set(pool.map(install_secret, [tmp_path / "c.db"] * 32))
    assert len(secrets) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["c.db.secret"]


@pytest.mark.parametrize("content", [b"", b"short\n", b"G" * 64 + b"\n", b"a" * 66])
def test_a_damaged_file_is_an_error_and_stays(tmp_path: Path, content: bytes) -> None:
    """A new secret would orphan every stored compaction: that is for the operator to decide."""
    file = tmp_path / "c.db.secret"
    file.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        install_secret(tmp_path / "c.db")
    assert file.read_bytes() == content


def test_no_place_for_it_is_a_store_error(tmp_path: Path) -> None:
    """A directory that cannot be made is the store's fault like any other."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="install secret"):
        install_secret(tmp_path / "file" / "c.db")
