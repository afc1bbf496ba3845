"""A captured exchange is one line that readers of SageMaker's files understand, and has nothing of ours."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from hypertier.errors import ConfigError
from hypertier.router.capture.records import Record, line_of, read_answer, unchunked
from hypertier.router.capture.redaction import redact
from hypertier.router.capture.settings import CaptureSettings

BODY = b'{"model":"m","prompt":"where is it?"}'
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 14\r\n\r\n{"text":"here"}'
STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'12\r\ndata: {"text":"h"}\r\n4\r\n\n\nda\r\n0e\r\nta: [DONE]\n\n--\r\n0\r\n\r\n'
)


def record(answer: bytes = ANSWER, payload: bytes = BODY, **options: Any) -> Record:
    made = Record("one", "acme", 1_764_720_000.0, "application/json", payload, **options)
    made.answer.append(answer)
    return made


def line(found: Record, **settings: Any) -> Any:
    written = line_of(found, CaptureSettings(spool="there", **settings))
    return None if written is None else json.loads(written)


def test_a_line_is_of_sagemaker_s_form() -> None:
    assert line(record()) == {
        "captureData": {
            "endpointInput": {
                "observedContentType": "application/json",
                "mode": "INPUT",
                "data": BODY.decode(),
                "encoding": "JSON",
            },
            "endpointOutput": {
                "observedContentType": "application/json",
                "mode": "OUTPUT",
                "data": '{"text":"here"}',
                "encoding": "JSON",
            },
        },
        "eventMetadata": {"eventId": "one", "inferenceTime": "2025-12-03T00:00:00Z"},
        "eventVersion": "0",
    }


@pytest.mark.parametrize(
    ("mode", "side"), [("Input", "endpointInput"), ("Output", "endpointOutput")], ids=["input", "output"]
)
def test_one_side_alone_may_be_captured(mode: str, side: str) -> None:
    assert list(line(record(), modes=(mode,))["captureData"]) == [side]


def test_a_stream_is_captured_without_its_framing_in_base64() -> None:
    output = line(record(STREAM))["captureData"]["endpointOutput"]

    assert output["encoding"] == "BASE64"
    assert base64.b64decode(output["data"]).startswith(b'data: {"text":"h"}\n\ndata: [DONE]')


@pytest.mark.parametrize(
    "answer",
    [ANSWER.replace(b"200 OK", b"400 Bad Request"), b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n"],
)
def test_what_was_no_success_is_not_captured(answer: bytes) -> None:
    assert line(record(answer)) is None


def test_a_tenant_s_salt_is_never_captured() -> None:
    salted = BODY[:-1] + b',"cache_salt":"secret","kv_transfer_params":null}'

    whole = line(record(payload=salted, is_salted=True))
    cut = line(record(payload=salted[:-5], is_salted=True, truncated=("Input",)))

    assert json.loads(whole["captureData"]["endpointInput"]["data"]) == json.loads(BODY)
    assert "secret" not in json.dumps(cut)
    assert cut["captureData"]["endpointInput"]["data"] == ""


def test_what_was_cut_off_is_said() -> None:
    long = ANSWER[:-2] + b"h" * 2000 + b'"}'

    told = line(record(long, truncated=("Input",)), max_payload_kb=1)

    assert told["eventMetadata"]["customAttributes"] == ["truncated=INPUT", "truncated=OUTPUT"]
    assert len(told["captureData"]["endpointOutput"]["data"]) == 1024


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"3\r\nabc\r\n0\r\n\r\n", b"abc", id="whole"),
        pytest.param(b"3;x=y\r\nabc\r\n2\r\nde", b"abcde", id="an extension, and no end"),
        pytest.param(b"5\r\nab", b"ab", id="cut off"),
        pytest.param(b"-1\r\nab\r\n", b"", id="a size below nothing"),
        pytest.param(b"zz\r\nab", b"", id="no size"),
    ],
)
def test_chunks_are_read_as_far_as_they_are_there(body: bytes, expected: bytes) -> None:
    assert unchunked(body) == expected


def test_no_answer_has_no_status() -> None:
    assert read_answer(b"HTTP/1.1 2x\r\n\r\n") == (0, "", b"")


SAID = {
    "model": "m",
    "messages": [{"role": "user", "content": "my name is Ann"}],
    "prompt": [17, 4, 12],
    "temperature": 0.5,
    "stop": ["Ann"],
    "metadata": {"id": "my name is Ann", "type": "a b"},
}


def test_redacted_is_all_that_people_and_models_say() -> None:
    found = json.loads(redact("application/json", json.dumps(SAID).encode()) or b"")

    assert found == {
        "model": "m",
        "messages": [{"role": "user", "content": "[14 characters]"}],
        "prompt": "[3 numbers]",
        "temperature": 0.5,
        "stop": ["[3 characters]"],
        "metadata": {"id": "[14 characters]", "type": "[3 characters]"},
    }


def test_a_stream_is_redacted_event_by_event() -> None:
    stream = b'event: delta\ndata: {"id":"a","text":"Ann"}\n\ndata: [DONE]\n\n'

    assert redact("text/event-stream", stream) == (
        b'event: delta\ndata: {"id":"a","text":"[3 characters]"}\n\ndata: [DONE]\n\n'
    )


@pytest.mark.parametrize(
    ("media_type", "payload"),
    [
        pytest.param("application/json", b'{"text":"An', id="cut off"),
        pytest.param("application/json", b"[" * 100_000, id="too deep"),
        pytest.param("text/plain", b"Ann", id="text"),
        pytest.param("text/event-stream", b": Ann\n", id="a comment"),
        pytest.param("multipart/form-data", b"Ann", id="a form"),
    ],
)
def test_what_can_not_be_redacted_is_left_out_whole(media_type: str, payload: bytes) -> None:
    made = Record("one", "", 0.0, media_type, payload)
    made.answer.append(ANSWER)

    assert redact(media_type, payload) is None
    assert line(made, redacts=True)["captureData"]["endpointInput"]["data"] == ""


@pytest.mark.parametrize(
    ("option", "flag"),
    [
        ({"sampling_percentage": 101}, "--capture-sampling-percentage"),
        ({"modes": ("input",)}, "--capture-mode"),
        ({"max_payload_kb": 10_241}, "--capture-max-payload-kb"),
        ({"batch_size": 0}, "--capture-batch-size"),
        ({"flush_seconds": 1}, "--capture-flush-seconds"),
        ({"spool_bytes": 1}, "--capture-spool-bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_work_is_refused_by_its_flag(option: dict[str, Any], flag: str) -> None:
    with pytest.raises(ConfigError, match=f"{flag} is"):
        CaptureSettings(spool="there", **option)
