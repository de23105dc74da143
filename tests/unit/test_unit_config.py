"""Settings are checked when they are made, with texts that say what to do."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from abort_sync import AbortClient, ConfigurationError, Keys, Limits
from abort_sync._config import check_count, check_flag, check_seconds, check_urls, check_verify

URL = "http://10.0.0.1:30000"
BAD_SECONDS = [0, 0.0, -1, float("nan"), float("inf"), float("-inf"), 1e12, True, None, "10", (1, 2, 3), b"1"]


@pytest.mark.parametrize("value", BAD_SECONDS, ids=repr)
@pytest.mark.parametrize("name", ["timeout_s", "flush_timeout_s"])
def test_a_time_that_is_none_is_refused(name: str, value: Any) -> None:
    """A timeout is a number of seconds above 0 and at most 7 days; the text names the setting."""
    with pytest.raises(
        ConfigurationError, match=rf"^{name} must be (a number of seconds, not \w+: for example|above 0 and at most 604800)"
    ):
        AbortClient(URL, **{name: value})


@pytest.mark.parametrize("name", ["connect_s", "read_s"])
@pytest.mark.parametrize("value", [0, -0.5, float("nan"), True, None, (1.0, 2.0)], ids=repr)
def test_a_limit_in_seconds_is_checked_alike(name: str, value: Any) -> None:
    """The limits of one attempt are held to the same range, under their own name."""
    with pytest.raises(ConfigurationError, match=rf"^limits\.{name} must be"):
        Limits(**{name: value})


def test_a_time_for_one_call_is_checked_before_anything_is_sent() -> None:
    """`timeout_s=` of a method is held to the same range; None stands for the client's own, and only there."""
    client = AbortClient(URL, agent_server_url=URL)
    calls = [
        lambda: client.abort_request("r", timeout_s=0),
        lambda: client.abort_requests(["r"], timeout_s=-1),
        lambda: client.abort_all(timeout_s=float("nan")),
        lambda: client.workers(timeout_s=True),
        lambda: client.discover(timeout_s="5"),  # type: ignore[arg-type]  # wrong on purpose
        lambda: client.loads(timeout_s=1e12),
        lambda: client.wait_for_workers(1, timeout_s=None),  # type: ignore[arg-type]  # wrong on purpose
        lambda: client.abort_until_idle(["r"], timeout_s=0),
        lambda: client.abort_until_idle(["r"], poll_s=0),
        lambda: client.abort_all_until_idle(timeout_s=None),  # type: ignore[arg-type]  # wrong on purpose
        lambda: client.flush("id", timeout_s=0),
        lambda: client.teardown("id", timeout_s=0),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match=r"^(timeout_s|poll_s) must be"):
            call()


@pytest.mark.parametrize("value", [1e-9, 0.5, 1, 604_800])
def test_a_usual_time_passes(value: float) -> None:
    """Whole and broken numbers in the range pass, as floats."""
    assert (check_seconds("timeout_s", value), type(check_seconds("timeout_s", value))) == (value, float)


@pytest.mark.parametrize(("name", "bad"), [("attempts", [0, 4, -1, 1.0, True, None, "3"]), ("threads", [0, 1025, 2.5, True, None])])
def test_a_count_outside_its_range_is_refused(name: str, bad: list[Any]) -> None:
    """Attempts and threads are whole numbers in a stated range; True is no number."""
    for value in bad:
        with pytest.raises(ConfigurationError, match=rf"^limits\.{name} must be a whole number from 1 to \d+, not"):
            Limits(**{name: value})
    assert check_count("n", 7, 1, 7) == 7


@pytest.mark.parametrize("settle", [0, 101, True, 2.0, None])
def test_settle_is_checked(settle: Any) -> None:
    """`settle` is a whole number from 1 to 100."""
    with pytest.raises(ConfigurationError, match="^settle must be a whole number from 1 to 100"):
        AbortClient(URL).abort_until_idle(["r"], settle=settle)


@pytest.mark.parametrize("name", ["trust_env", "allow_empty", "exclusive", "rewrite_local_urls"])
@pytest.mark.parametrize("value", [None, 0, 1, "false"], ids=repr)
def test_a_switch_takes_true_or_false_only(name: str, value: Any) -> None:
    """`exclusive="false"` would be true: a switch is True or False."""
    with pytest.raises(ConfigurationError, match=rf"^{name} must be True or False, not"):
        AbortClient(URL, **{name: value})
    assert check_flag(name, False) is False


@pytest.mark.parametrize("kwargs", [{}, {"router_url": ""}, {"router_url": []}, {"router_url": [None, ""], "worker_urls": [""]}])
def test_no_url_at_all_names_the_settings(kwargs: dict[str, Any]) -> None:
    """A client without any URL is refused, and the text names the arguments and the variables."""
    with pytest.raises(ConfigurationError) as caught:
        AbortClient(**kwargs)
    for name in ("router_url", "ABORT_SYNC_ROUTER_URL", "worker_urls", "agent_server_url", "AGENT_SERVER_URL"):
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("http://10.0.0.1 :30000", "holds a space"),
        ("http://h\n:1", "control character"),
        ("ftp://h:1", "only http and https"),
        ("grpc://h:1", "only http and https"),
        ("://h:1", "write http://HOST:PORT"),
        ("http://", "names no host"),
        ("http://h:99999", "cannot be used"),
        ("http://h:1?x=1", "no ? and no #"),
        (7, "must be a string like http"),
        (b"http://h:1", "must be a string like http"),
        ("   ", "is empty"),
    ],
)
@pytest.mark.parametrize("name", ["router_url", "worker_urls", "agent_server_url"])
def test_a_bad_url_is_named_with_its_setting(name: str, url: Any, what: str) -> None:
    """A URL that cannot be used is refused when the client is made, by the name of its argument."""
    with pytest.raises(ConfigurationError) as caught:
        AbortClient(**{"router_url": URL, name: [url]})
    assert str(caught.value).startswith(name)
    assert what in str(caught.value)


@pytest.mark.parametrize("urls", [7, 7.5, object()])
def test_urls_are_one_string_or_several(urls: Any) -> None:
    """What is neither a string nor a list is refused by its type."""
    with pytest.raises(ConfigurationError, match="^router_url must be a URL or a list of URLs, not"):
        AbortClient(urls)


def test_urls_come_once_each_in_order() -> None:
    """Several spellings of one server are one server; order is kept; None and "" are left out."""
    found = check_urls("router_url", ["http://b:2/", None, "a:1", "", " http://b:2/v1 ", "http://a:1"])
    assert [one.text for one in found] == ["http://b:2", "http://a:1"]
    assert check_urls("router_url", (one for one in ["http://a:1"]))[0].host == "a"
    assert check_urls("router_url", None) == ()


@pytest.mark.parametrize(
    ("kwargs", "what"),
    [
        ({"agent_server_url": ["http://a:1", "http://b:1"]}, "one URL: make a second client"),
        ({"keys": "secret-key"}, "keys must be a Keys"),
        ({"keys": {"router": "secret-key"}}, "keys must be a Keys"),
        ({"limits": 3}, "limits must be a Limits"),
        ({"on_event": "print"}, "on_event must be a callable"),
    ],
)
def test_other_wrong_types_say_what_is_wanted(kwargs: dict[str, Any], what: str) -> None:
    """A value of the wrong kind is refused with the right kind named, and never shown where it may be a secret."""
    with pytest.raises(ConfigurationError, match=what) as caught:
        AbortClient(URL, **kwargs)
    assert "secret-key" not in str(caught.value)


def test_verify_takes_a_path_that_exists(tmp_path: Path) -> None:
    """`verify` is True, False, or the path of a bundle or directory that is there (a string or a Path)."""
    bundle = tmp_path / "ca.pem"
    bundle.write_text("")
    assert [check_verify(one) for one in (True, False, str(bundle), bundle, tmp_path)] == [
        True, False, str(bundle), str(bundle), str(tmp_path),
    ]  # fmt: skip
    for bad, what in ((tmp_path / "gone.pem", "there is no CA bundle at"), (b"x", "must be True, False or the path"), (None, "must be")):
        with pytest.raises(ConfigurationError, match=f"^verify.*{what}"):
            AbortClient(URL, verify=bad)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(("given", "kept"), [(" key\n", "key"), ("key\r\n", "key"), ("", None), (" \n", None), (None, None)])
def test_a_key_is_trimmed_and_a_blank_one_is_none(given: Any, kept: Any) -> None:
    """White space around a key goes; an empty or blank key is no key, so no header `Bearer ` is sent."""
    assert Keys(given, given, given, given) == Keys(kept, kept, kept, kept)


@pytest.mark.parametrize("bad", ["sec\nret", "sec\x00ret", "sec\tret", "sécret", "sec\x7fret", "сек", "sec\u2028ret"], ids=ascii)
@pytest.mark.parametrize("name", ["router", "worker", "worker_admin", "agent"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(name: str, bad: str) -> None:
    """A key with a control or non-ASCII character is refused by its name; no part of it is in the text."""
    with pytest.raises(ConfigurationError, match=rf"^keys\.{name} holds a control or non-ASCII character") as caught:
        Keys(**{name: bad})
    assert "ret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("bad", [7, b"secret", ["secret"], True])
def test_a_key_is_a_string(bad: Any) -> None:
    """A key of another type is refused by the type's name, not its value."""
    with pytest.raises(ConfigurationError, match=r"^keys\.worker must be a string or None, not") as caught:
        Keys(worker=bad)
    assert "secret" not in str(caught.value)


def test_no_text_shows_a_key() -> None:
    """Reprs of keys and client tell which keys are set and never a value; credentials in a URL are masked."""
    keys = Keys(router="s3cr3t-r", agent="s3cr3t-a")
    assert repr(keys) == "Keys(router=***, worker=None, worker_admin=None, agent=***)"
    client = AbortClient(
        "http://user:s3cr3t-p@h:1", worker_urls=["http://u:s3cr3t-w@h:2"], agent_server_url="http://u:s3cr3t-g@h:3", keys=keys
    )
    shown = f"{client!r} {client} {keys} {vars(client)} {client._settings.keys!r}"
    for secret in ("s3cr3t-r", "s3cr3t-a"):
        assert secret not in shown
    assert "s3cr3t" not in repr(client)
    assert "http://***@h:1" in repr(client)


def test_scrubbing_takes_each_key_out_longest_first() -> None:
    """A key inside a text becomes ***, also percent-encoded, also where one key is a part of another."""
    keys = Keys(router="abc", worker="abc/def", agent="x+y z")
    assert keys.scrub("got abc, abc/def, abc%2Fdef, x+y z, x%2By%20z.") == "got ***, ***, ***, ***, ***."
    assert Keys().scrub("nothing to hide") == "nothing to hide"


def test_settings_survive_pickle() -> None:
    """Keys and limits are values: equal after a pickle, and frozen."""
    for value in (Keys(router="r"), Limits(connect_s=1, attempts=2)):
        assert pickle.loads(pickle.dumps(value)) == value
        with pytest.raises(AttributeError):
            value.router = "x"  # type: ignore[union-attr, misc]  # wrong on purpose


def test_making_a_client_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `from_env` and `from_args` read variables."""
    monkeypatch.setenv("ABORT_SYNC_ROUTER_URL", URL)
    monkeypatch.setattr(os, "environ", {"ABORT_SYNC_ROUTER_URL": URL})
    with pytest.raises(ConfigurationError, match="no URL was given"):
        AbortClient()
