"""Settings of jobs: what people write, and back."""

from __future__ import annotations

import msgspec
import pytest

from job.settings import Settings, SettingsError, settings_of


def test_settings_are_read_back_as_they_are_shown() -> None:
    settings = Settings(emit_us=250_000, expect=3, empty=True, webhook="https://alerts.example/elf?x=1")
    assert settings_of(settings.shown()) == settings


def test_null_is_the_default_and_the_rest_stays() -> None:
    base = Settings(emit_us=250_000, webhook="http://127.0.0.1:1/x")
    assert settings_of({"emit": None}, base) == msgspec.structs.replace(base, emit_us=Settings().emit_us)
    assert settings_of({"webhook": None}, base).webhook == ""
    assert settings_of({"webhook": ""}, base).webhook == ""


@pytest.mark.parametrize(
    "address",
    [
        "alerts.example/x", "ftp://alerts.example/", "http://", "http:///x", "http://a:99999/", "http://a:x/", "http://a b/",
        "http://a/\n", "http://a/ä", "http://[::1/", "http://user:secret@a/", "http://a/" + "x" * 2048, 7, True, ["http://a/"],
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_webhook(address: object) -> None:
    with pytest.raises(SettingsError) as raised:
        settings_of({"webhook": address})
    assert raised.value.field == "webhook"
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("emit", "1ms"),
        ("emit", "fast"),
        ("emit", 5),
        ("expect", -1),
        ("expect", True),
        ("partitions", 65),
        ("empty", 1),
    ],
)
def test_what_is_no_value_names_its_field(name: str, value: object) -> None:
    with pytest.raises(SettingsError) as raised:
        settings_of({name: value})
    assert raised.value.field == name


def test_an_unknown_setting_is_told_the_nearest() -> None:
    with pytest.raises(SettingsError, match="did you mean lateness"):
        settings_of({"latenes": "1m"})
