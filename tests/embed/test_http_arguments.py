"""What an endpoint's URL and key may be."""

import pytest

from hyrecall.embed import HttpEmbedder
from hyrecall.errors import OptionError

KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize(
    ("url", "target", "name"),
    [
        ("http://localhost:8080", "/embeddings", "localhost:8080/embeddings"),
        ("http://127.0.0.1/v1", "/v1/embeddings", "127.0.0.1/v1/embeddings"),
        ("http://[::1]:80/v1/", "/v1/embeddings", "[::1]/v1/embeddings"),
        ("https://h/v1/embeddings", "/v1/embeddings", "h/v1/embeddings"),
        ("https://h/v1/embeddings/", "/v1/embeddings", "h/v1/embeddings"),
        ("https://h:444/x?api-version=1", "/x/embeddings?api-version=1", "h:444/x/embeddings"),
    ],
)
def test_the_path_ends_in_embeddings(url: str, target: str, name: str) -> None:
    embedder = HttpEmbedder(url, key=KEY)
    assert (embedder._endpoint.target, embedder.model) == (target, name)
    assert "api-version" not in repr(embedder)


@pytest.mark.parametrize(
    ("url", "wish"),
    [
        ("ftp://h/v1", "scheme 'ftp'"),
        ("h/v1", "scheme ''"),
        ("file:///etc/passwd", "scheme 'file'"),
        ("http://", "without a host"),
        ("http://user:pw@h/v1", "a user in it"),
        ("http://h/v1#part", "fragment"),
        ("http://h:99999/", "[Pp]ort"),
        ("http://h/a b", "another character"),
        ("http://h/a\r\nX: y", "another character"),
        ("http://" + "a" * 64 + ".org", "label"),
        ("http://h.example/v1", "https, so that nobody reads the key, got http to h.example"),
        ("http://127.0.0.1.example.org/v1", "https, so that nobody reads the key"),
        ("http://localhost.example.org/v1", "https, so that nobody reads the key"),
    ],
)
def test_a_url_that_is_no_endpoint_is_refused(url: str, wish: str) -> None:
    with pytest.raises(OptionError, match=f"url: expected .*{wish}") as caught:
        HttpEmbedder(url, key=KEY)
    assert KEY not in str(caught.value)
    assert "pw" not in str(caught.value)


def test_without_a_key_http_goes_anywhere() -> None:
    assert repr(HttpEmbedder("http://h.example/v1", model="m")) == (
        "HttpEmbedder('h.example/v1/embeddings', model='m')"
    )


@pytest.mark.parametrize("key", ["", " ", "a b", "a\r\nX-Evil: 1", "ké"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(OptionError, match="key: expected printable ASCII") as caught:
        HttpEmbedder("http://localhost", key=key)
    assert "Evil" not in str(caught.value)
