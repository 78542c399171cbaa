"""Converts syslog messages to envelopes: RFC 5424, RFC 3164, and other formats that daemons send.

A message in another format is stored whole as text, because syslog cannot reject. No value is
guessed: RFC 3164 has neither year nor zone, so its timestamp stays text and the envelope's is
the time of receipt.
"""

import re
from hashlib import sha256
from typing import Any, Final

import msgspec

from shared.envelope import Moment, as_utc
from shared.errors import UserError

EVENT_NAME: Final = "syslog_message"
_ID_DIGITS: Final = 40
_BOM: Final = "\ufeff"

_5424: Final = re.compile(
    r"<(?P<pri>\d{1,3})>(?P<version>[1-9]\d{0,2}) (?P<timestamp>\S{1,64}) (?P<hostname>\S{1,255}) "
    r"(?P<app_name>\S{1,128}) (?P<procid>\S{1,128}) (?P<msgid>\S{1,64}) "
    r'(?P<sd>-|(?:\[[^ \]="]{1,64}(?: [^ \]="]{1,64}="(?:[^"\\\]]|\\.)*")*\])+)(?: (?P<message>.*))?',
    re.DOTALL,
)
_3164: Final = re.compile(
    r"<(?P<pri>\d{1,3})>(?P<timestamp>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<hostname>\S{1,255}) "
    r"(?:(?P<app_name>[^\s:\[]{1,128})(?:\[(?P<procid>[^\]\s]{1,128})\])?: ?)?(?P<message>.*)",
    re.DOTALL,
)
_PRI: Final = re.compile(r"<(?P<pri>\d{1,3})>(?P<message>.*)", re.DOTALL)
_ELEMENT: Final = re.compile(r'\[([^ \]="]+)((?: [^ \]="]+="(?:[^"\\\]]|\\.)*")*)\]')
_PARAMETER: Final = re.compile(r' ([^ \]="]+)="((?:[^"\\\]]|\\.)*)"', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\(["\\\]])')
_HIGHEST_PRI: Final = 191


def to_envelope(raw: bytes, received_at: str, peer: str, transport: str, sequence: int) -> dict[str, Any]:
    """Return the `syslog_message` envelope of one message.

    The id is a hash of the content and its reception (time, peer, transport, count): two equal lines
    are two messages, and a message that is sent to Kafka twice has the same id.
    """
    payload = parse(raw) | {"transport": transport, "peer": peer}
    receipt = f"{received_at}|{peer}|{transport}|{sequence}|".encode()
    return {
        "metadata": {
            "id": "syslog-" + sha256(receipt + raw).hexdigest()[:_ID_DIGITS],
            "timestamp": _timestamp(payload) or received_at,
            "version": "1",
        },
        "event_name": EVENT_NAME,
        "payload": payload,
    }


def parse(raw: bytes) -> dict[str, Any]:
    """Return the typed fields of a message; missing fields are None."""
    text, encoding = _text(raw)
    for form, pattern in (("rfc5424", _5424), ("rfc3164", _3164), ("unknown", _PRI)):
        match = pattern.fullmatch(text)
        if match is not None and int(match["pri"]) <= _HIGHEST_PRI:
            return _fields(form, match.groupdict(), encoding)
    return _fields("unknown", {"message": text}, encoding)


def _fields(form: str, groups: dict[str, str | None], encoding: str) -> dict[str, Any]:
    pri = groups.get("pri")

    def field(name: str) -> str | None:
        value = groups.get(name)
        return None if value == "-" else value

    return {
        "format": form,
        "facility": None if pri is None else int(pri) // 8,
        "severity": None if pri is None else int(pri) % 8,
        "timestamp": field("timestamp"),
        "hostname": field("hostname"),
        "app_name": field("app_name"),
        "procid": field("procid"),
        "msgid": field("msgid"),
        "structured_data": _structured(groups.get("sd") or "-"),
        "message": (groups.get("message") or "").removeprefix(_BOM),
        "encoding": encoding,
    }


def _structured(text: str) -> dict[str, dict[str, str]]:
    return {
        identifier: {name: _ESCAPED.sub(r"\1", value) for name, value in _PARAMETER.findall(parameters)}
        for identifier, parameters in _ELEMENT.findall(text)
    }


def _text(raw: bytes) -> tuple[str, str]:
    """Return the message as text, and its encoding. NUL, which Postgres cannot store, becomes U+FFFD."""
    try:
        return raw.decode().replace("\0", "\ufffd"), "utf-8"
    except UnicodeDecodeError:
        return raw.decode("latin-1").replace("\0", "\ufffd"), "latin-1"


def _timestamp(payload: dict[str, Any]) -> str | None:
    """Return the message's timestamp if it is valid in an envelope: Python's `fromisoformat` accepts more."""
    timestamp = payload["timestamp"]
    if payload["format"] != "rfc5424" or timestamp is None:
        return None
    try:
        as_utc(msgspec.convert(timestamp, Moment))
    except (msgspec.ValidationError, UserError):
        return None
    return str(timestamp)
