from __future__ import annotations

import base64

import pytest

from proxy.adapters.proxies import Proxies
from proxy.errors import Unreachable

AUTH = "Basic " + base64.b64encode(b"us er:p@ss").decode()


@pytest.mark.parametrize(
    ("environ", "url", "proxy", "authorization"),
    [
        ({}, "https://api.example/v1", None, None),
        ({"HTTPS_PROXY": "http://p:3128"}, "https://api.example/v1", "http://p:3128", None),
        ({"HTTPS_PROXY": "http://p:3128"}, "http://api.example/v1", None, None),
        ({"http_proxy": "p:3128"}, "http://api.example/v1", "http://p:3128", None),
        ({"https_proxy": "http://low", "HTTPS_PROXY": "http://up"}, "https://a.example", "http://low", None),
        ({"ALL_PROXY": "http://all"}, "https://api.example/v1", "http://all", None),
        ({"ALL_PROXY": "http://all", "HTTPS_PROXY": ""}, "https://api.example/v1", "http://all", None),
        ({"HTTPS_PROXY": "http://us%20er:p%40ss@p:1"}, "https://a.example", "http://p:1", AUTH),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, "https://a.example", None, None),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "b.example, a.example"}, "https://a.example/v1", None, None),
        ({"HTTPS_PROXY": "http://p", "no_proxy": ".example"}, "https://a.example", None, None),
        ({"HTTPS_PROXY": "http://p", "no_proxy": "*.example"}, "https://x.a.example", None, None),
        ({"HTTPS_PROXY": "http://p", "no_proxy": "a.example:8443"}, "https://a.example:8443", None, None),
        ({"HTTPS_PROXY": "http://p", "no_proxy": "a.example:8443"}, "https://a.example", "http://p", None),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "example"}, "https://notexample", "http://p", None),
        ({"HTTP_PROXY": "http://p"}, "http://localhost:8000/v1", None, None),
        ({"HTTP_PROXY": "http://p"}, "http://127.0.0.2:8000/v1", None, None),
        ({"HTTP_PROXY": "http://p"}, "http://[::1]:8000/v1", None, None),
    ],
)
def test_outbound_proxies(environ: dict[str, str], url: str, proxy: str | None, authorization: str | None) -> None:
    """The usual variables choose the usual proxy; its password leaves the address and becomes a header."""
    chosen, headers = Proxies(environ).choose(url)
    assert chosen == proxy
    assert (headers["Proxy-Authorization"] if headers else None) == authorization


def test_a_proxy_that_cannot_be_spoken_to() -> None:
    """SOCKS is not supported, and going around a named proxy is not an option."""
    with pytest.raises(Unreachable, match="socks5"):
        Proxies({"ALL_PROXY": "socks5://p:1080"}).choose("https://a.example/v1")
