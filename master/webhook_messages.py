"""What a webhook is sent: body, headers and signature, as Standard Webhooks (standardwebhooks.com) has them. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import urlsplit

import msgspec

from master.requests import BACKFILL, JobView, ResultRecord
from master.result_documents import record_json

ROWS_MAX = 1000
"""Rows of one window that are sent; `row_count` tells how many there are."""
RETRY_FIRST_S = 1.0
RETRY_MOST_S = 60.0


def address(view: JobView) -> str:
    """Where the current revision wants its windows sent; empty: nowhere."""
    return _webhook(view, view.revision)


def _webhook(view: JobView, revision: int) -> str:
    for one in view.revisions:
        if one.revision == revision:
            return str(one.settings.get("webhook", ""))
    return ""


def is_due(view: JobView, record: ResultRecord) -> bool:
    """Whether a result is one to send: final, with rows, of a revision that had a webhook. A job that gets one by a change
    does not send what came before, nor does a backfill: nobody is to be woken for last month."""
    if record.origin == BACKFILL and view.derived is None:
        return False
    return record.status == "final" and record.rows > 0 and bool(_webhook(view, record.plan))


def allowed(url: str, hosts: frozenset[str] | None) -> bool:
    return hosts is None or urlsplit(url).hostname in hosts


def body(job: str, record: ResultRecord) -> bytes:
    """The window as /results shows it, with the name of its job."""
    return b'{"job":' + msgspec.json.encode(job) + b"," + record_json(record, ROWS_MAX)[1:]


def headers(job: str, index: int, sent_s: int, body: bytes, secret: bytes) -> dict[str, str]:
    """`webhook-id` is the same in every attempt: receivers forget what they have had."""
    id = f"{job}:{index}"
    found = {"Content-Type": "application/json", "webhook-id": id, "webhook-timestamp": str(sent_s)}
    if secret:
        signed = hmac.digest(secret, f"{id}.{sent_s}.".encode() + body, hashlib.sha256)
        found["webhook-signature"] = "v1," + base64.b64encode(signed).decode()
    return found


def retry_s(attempts: int) -> float:
    """How long to wait after so many failures in a row."""
    return min(RETRY_FIRST_S * 2.0 ** min(attempts - 1, 16), RETRY_MOST_S)

