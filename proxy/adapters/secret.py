"""The install secret: what turns a client's key into a tenant name that cannot be turned back."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path

from proxy.errors import StoreError


def beside(store: Path) -> Path:
    """Where the secret of `store` is kept. Where it exists, the store is ours, whatever may have happened to it."""
    return store.with_name(store.name + ".secret")


def install_secret(store: Path, *, make: bool = True) -> bytes:
    """The 32 bytes kept beside `store` (0600), made on first use; all processes that share the store get the same.

    Raises `StoreError`; also if there is none and it may not be made.
    """
    path = beside(store)
    try:
        if make and not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(path)
        text = path.read_bytes()
    except OSError as error:
        raise StoreError(f"install secret: {error}") from error
    if not re.fullmatch(rb"[0-9a-f]{64}\n", text):
        raise StoreError(f"install secret: {path} is damaged; without it the stored compactions are of no use")
    return bytes.fromhex(text.decode("ascii"))


def _create(path: Path) -> None:
    """Written aside and linked into place, so that nobody sees half of it and the first of several writers wins."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32).hex().encode("ascii") + b"\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
