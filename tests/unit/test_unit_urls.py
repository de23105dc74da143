"""URL clean-up: one spelling a server, and nothing dialled that was not meant."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abort_sync._urls import clean_url, credentials, is_local_host, is_wildcard, mask

STABLE = settings(derandomize=True, deadline=None, database=None, max_examples=100)
HOSTS = st.sampled_from(
    ["h", "10.0.0.1", "a.b-c.example", "[::1]", "::1", "fe80::1", "2001:db8:0:0:0:0:0:1", "bücher.example", "H.", "0", "1"]
)
PARTS = st.one_of(
    st.sampled_from(
        ["http://", "HTTP://", "https://", "grpc://", "//", "/", "@", ":", "?", "#", "v1", "%", " ", "\n", "\\", "user:pw@", ":80", ":443"]
    ),
    st.sampled_from(["@0", "@1", ":30000", ":99999", ":x", "[", "]", "..", "0.0.0.0", "127.0.0.1", "١", "xn--"]),
    HOSTS,
    st.text("a0.:/@#%?[]\\ \t\n\x00\x7f\u00a0é漢。ß😀\u2028", max_size=5),
)
TEXTS = st.lists(PARTS, max_size=7).map("".join)
USERS = st.text("abXY09-_.~!$&'()*+,;=%", max_size=6)


@pytest.mark.parametrize(
    ("written", "clean"),
    [
        ("http://10.0.0.1:30000", "http://10.0.0.1:30000"),
        ("10.0.0.1:30000", "http://10.0.0.1:30000"),
        ("localhost:8000", "http://localhost:8000"),
        ("  http://h:1/ \n", "http://h:1"),
        ("http://h:1///", "http://h:1"),
        ("http://h:1/v1", "http://h:1"),
        ("http://h:1/v1/", "http://h:1"),
        ("http://h:1//a//b/", "http://h:1/a/b"),
        ("http://h:1/models/v1", "http://h:1/models"),
        ("http://h:1/v10", "http://h:1/v10"),
        ("http://h:1/dev1", "http://h:1/dev1"),
        ("HTTP://Router.Example:80", "http://router.example"),
        ("https://h:443/", "https://h"),
        ("https://h:80", "https://h:80"),
        ("http://h:443", "http://h:443"),
        ("http://[::1]:30000/", "http://[::1]:30000"),
        ("[::1]:30000", "http://[::1]:30000"),
        ("http://2001:db8:0:0:0:0:0:1", "http://[2001:db8:0:0:0:0:0:1]"),
        ("http://::1:30000", "http://[::1]:30000"),  # a group has four digits: 30000 can only be a port
        ("http://2001:db8:0:0:0:0:0:1:30000", "http://[2001:db8:0:0:0:0:0:1]:30000"),
        ("http://user:password@h:1", "http://user:password@h:1"),
        ("http://@h:1", "http://h:1"),
        ("http://0.0.0.0:1", "http://0.0.0.0:1"),
    ],
)
def test_one_spelling(written: str, clean: str) -> None:
    """A11: what surely means the same server becomes one spelling."""
    assert clean_url(written).text == clean


@pytest.mark.parametrize(
    ("listed", "clean", "host", "port"),
    [
        ("http://10.0.0.1:30000@0", "http://10.0.0.1:30000", "10.0.0.1", 30000),
        ("http://10.0.0.1:30000@17", "http://10.0.0.1:30000", "10.0.0.1", 30000),
        ("http://10.0.0.1:30000@3/", "http://10.0.0.1:30000", "10.0.0.1", 30000),
        ("http://[::1]:30000@3", "http://[::1]:30000", "::1", 30000),
        ("10.0.0.1:30000@1", "http://10.0.0.1:30000", "10.0.0.1", 30000),
        ("http://user:pw@h:1@2", "http://user:pw@h:1", "h", 1),
    ],
)
def test_a_rank_is_no_host(listed: str, clean: str, host: str, port: int) -> None:
    """A1: `url@rank` is the URL, with the real host, and never a user, a password and the host `0`."""
    url = clean_url(listed)
    assert (url.text, url.host, url.port) == (clean, host, port)
    assert "10.0.0.1:30000" not in str(credentials(url.text))


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (None, "must be a string like http://10.0.0.1:30000, not NoneType"),
        (7, "must be a string like http://10.0.0.1:30000, not int"),
        (["http://h"], "must be a string like http://10.0.0.1:30000, not list"),
        (b"http://h", "must be a string like http://10.0.0.1:30000, not bytes"),
        ("", "is empty"),
        (" \t", "is empty"),
        ("http://h h:1", "holds a space"),
        ("http://h\x00:1", "control character"),
        ("http://h\\@evil:1", "backslash"),
        ("http://h\u200b:1", "control character"),
        ("ftp://h:1", "has the scheme 'ftp': only http and https"),
        ("grpc://h:1", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("://h", "no usable scheme: write http://HOST:PORT"),
        ("//h:1", "no usable scheme"),
        ("1http://h", "no usable scheme"),
        ("http:/127.0.0.1:9", "no usable scheme"),
        ("http//127.0.0.1:9", "no usable scheme"),
        ("HTTPS;//127.0.0.1:9", "no usable scheme"),
        ("a,b", "several URLs are several values"),
        ("http://127.0.0.1:1,http://127.0.0.1:2", "cannot be used"),
        ("30000", "its host is no address: write http://HOST:PORT"),
        ("http://", "names no host"),
        ("http://:30000", "names no host"),
        ("http://h:0", "port 0"),
        ("http://h:70000", "cannot be used"),
        ("http://h:x", "cannot be used"),
        ("http://h?a=1", "no ? and no #"),
        ("http://h#a", "no ? and no #"),
        ("http://u@v@h:1", "more than one @"),
        ("http://0.0.0.3:30000", "names no machine"),
        ("http://10.0.1:30000", "cannot be used"),
        ("http://30000", "cannot be used"),
        ("http://::1:8000", "an IPv6 address needs brackets"),
        ("http://[::1", "cannot be used"),
        ("http://[zz]:1", "cannot be used"),
        ("http://[127.0.0.1]:1", "cannot be used"),
        ("http://a..b:1", "cannot be used"),
        (f"http://{'a' * 64}.example:1", "cannot be used"),
        ("http://h/" + "a" * 3000, "3009 characters long, more than 2048"),
    ],
    ids=ascii,
)
def test_what_cannot_be_used_says_why(written: object, why: str) -> None:
    """A URL that is not certain is one clear error, in the words of the caller's setting."""
    with pytest.raises(ValueError) as caught:
        clean_url(written, "router_url")
    assert str(caught.value).startswith("router_url ")
    assert why in str(caught.value)
    assert len(str(caught.value)) < 2500


@STABLE
@given(TEXTS)
def test_clean_up_is_idempotent_and_fails_in_one_way(text: str) -> None:
    """Cleaning a clean URL changes nothing, and a text that is no URL raises ValueError and nothing else."""
    try:
        url = clean_url(text)
    except ValueError:
        return
    assert clean_url(url.text) == url
    assert url.text == url.text.strip().rstrip("/")


@STABLE
@given(TEXTS)
def test_a_clean_url_dials_a_named_host(text: str) -> None:
    """A1: whatever was written, nothing is dialled at 0.x.x.x (but the wildcard, which is rewritten), and the port can be dialled."""
    try:
        url = clean_url(text)
    except ValueError:
        return
    assert url.scheme in ("http", "https")
    assert 0 < url.port < 65536
    assert is_wildcard(url.host) or not (url.host.replace(".", "").isdigit() and int(url.host.split(".")[0]) == 0)


@STABLE
@given(
    scheme=st.sampled_from(["http://", "https://", "ftp://", "", "x y://"]),
    user=USERS,
    more=st.sampled_from(["", "/", "?", "#", "://", ":", "[", "%2F", "1", "ﬀ"]),
    host=st.sampled_from(["h", "h:1", "[::1]:2", "10.0.0.1:30000", "bad host", "h:1@3", "", "0"]),
    tail=st.sampled_from(["", "/", "/v1", "?a=1", "#b", "/path"]),
)
def test_mask_never_shows_a_password(scheme: str, user: str, more: str, host: str, tail: str) -> None:
    """A password in a URL, good or bad, is in no masked text and in no error."""
    url = f"{scheme}{user}:hunter2{more}hunter2@{host}{tail}"
    assert "hunter2" not in mask(url)
    try:
        clean_url(url)
    except ValueError as why:
        assert "hunter2" not in str(why)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://h:1/a", "http://h:1/a"),
        ("http://user:pw@h:1/a", "http://***@h:1/a"),
        ("user:pw@h:1", "***@h:1"),
        ("http://h:1@3", "http://h:1@3"),
        ("http://user:pw@h:1@3", "http://***@h:1@3"),
        ("http://user:pw@3", "http://***@3"),
        ("http://user:p/w@h:1/a", "http://***@h:1/a"),
        ("http://user:p#w?@h:1", "http://***@h:1"),
        ("http://user:p://w@h:1", "http://***@h:1"),
        ("user:p://w@h:1", "***@h:1"),
        ("[::1]:30000@3", "[::1]:30000@3"),
        ("::1:30000@3/", "::1:30000@3/"),
        ("http://h/?key=secret", "http://h/?***"),
        ("http://h/#secret", "http://h/#***"),
        ("", ""),
    ],
)
def test_mask_keeps_the_rest(url: str, shown: str) -> None:
    """Masking keeps all that helps a reader to know the server, a rank included."""
    assert mask(url) == shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h", None),
        ("http://u:p@h", ("u", "p")),
        ("http://u@h", ("u", "")),
        ("http://a%40b:c%3Ad@h", ("a@b", "c:d")),
        ("http://@h", None),
    ],
)
def test_credentials_are_read_decoded(url: str, expected: tuple[str, str] | None) -> None:
    """User and password stand percent-encoded in a URL and are used decoded."""
    assert credentials(url) == expected


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("localhost", True), ("LocalHost.", True), ("ip6-localhost", True), ("127.0.0.1", True), ("127.3.2.1", True), ("::1", True),
        ("0.0.0.0", True), ("::", True), ("::ffff:127.0.0.1", True), ("10.0.0.1", False), ("localhost.example", False),
        ("fe80::1%eth0", False),
    ],
)  # fmt: skip
def test_a_local_host_is_known(host: str, is_local: bool) -> None:
    """A10: all names of the machine itself are known as such."""
    assert is_local_host(host) is is_local


@pytest.mark.parametrize(
    ("url", "host", "moved"),
    [
        ("http://127.0.0.1:30000", "10.0.0.9", "http://10.0.0.9:30000"),
        ("http://0.0.0.0:30000/a", "router.example", "http://router.example:30000/a"),
        ("http://localhost", "::1", "http://[::1]"),
        ("https://u:p@[::1]:1", "h", "https://u:p@h:1"),
    ],
)
def test_a_url_moves_to_another_host(url: str, host: str, moved: str) -> None:
    """A10: moving a URL to the router's host keeps scheme, port, path and credentials."""
    assert clean_url(url).on_host(host).text == moved
