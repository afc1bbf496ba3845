"""Where the master key comes from, and that it shows nowhere."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import boto3
import pytest
from fakes_moto import REGION, moto_server
from fakes_tier import FakeClock

from hypertier.errors import ConfigError, TierUnavailableError
from hypertier.tier.backends.memory import MemoryBackend
from hypertier.tier.cipher import ChunkCipher, read_cipher
from hypertier.tier.encryption_key import RETRY_SECONDS, FetchedKey, key_source
from hypertier.tier.entries import Entries, Loaded
from hypertier.tier.namespace import Namespace

KEY = bytes(range(32))
TEXT = base64.b64encode(KEY).decode()
ARN = f"arn:aws:secretsmanager:{REGION}:111122223333:secret:key-AbCdEf"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """AWS on this machine."""
    with moto_server() as url:
        for name, value in (
            ("AWS_ENDPOINT_URL", url),
            ("AWS_REGION", REGION),
            ("AWS_DEFAULT_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ):
            monkeypatch.setenv(name, value)
        yield


def cipher_of(environ: dict[str, str]) -> ChunkCipher:
    found = read_cipher(environ)
    assert found is not None
    return found


def test_a_key_from_secrets_manager_is_the_same_key(aws: None) -> None:
    secret = boto3.client("secretsmanager").create_secret(Name="key", SecretString=f"{TEXT}\n")

    cipher = cipher_of({"HYPERTIER_L2_KEY_SECRET_ARN": secret["ARN"]})

    assert cipher.key_id == ChunkCipher(KEY).key_id


def test_a_secret_of_bytes_is_named_and_told_what_works(aws: None) -> None:
    secret = boto3.client("secretsmanager").create_secret(Name="key", SecretBinary=KEY)

    with pytest.raises(TierUnavailableError, match=r"KEY_SECRET_ARN .*SecretString"):
        _ = cipher_of({"HYPERTIER_L2_KEY_SECRET_ARN": secret["ARN"]}).key_id


def test_a_data_key_of_kms_is_opened(aws: None) -> None:
    kms = boto3.client("kms")
    master = kms.create_key()["KeyMetadata"]["KeyId"]
    data_key = kms.generate_data_key(KeyId=master, KeySpec="AES_256")
    sealed = base64.b64encode(data_key["CiphertextBlob"]).decode()

    cipher = cipher_of({"HYPERTIER_L2_KEY_CIPHERTEXT": sealed, "AWS_REGION": REGION})

    assert cipher.key_id == ChunkCipher(data_key["Plaintext"]).key_id


def test_a_key_is_fetched_when_it_is_needed_once() -> None:
    fetched: list[str] = []
    source = FetchedKey("VARIABLE", lambda: fetched.append(TEXT) or TEXT)  # type: ignore[func-returns-value]
    before = list(fetched)

    keys = [source(), source()]

    assert (before, keys, fetched) == ([], [KEY, KEY], [TEXT])


def test_who_waited_while_aws_failed_does_not_wait_for_it_anew() -> None:
    clock = FakeClock()
    fetched: list[float] = []

    def fetch() -> str:
        fetched.append(clock())
        raise OSError("AWS is away")

    source = FetchedKey("VARIABLE", fetch, clock)
    with pytest.raises(OSError, match="AWS is away"):
        source()

    with pytest.raises(TierUnavailableError, match="VARIABLE, a moment ago: AWS is away"):
        source()
    clock.advance(RETRY_SECONDS)
    with pytest.raises(OSError, match="AWS is away"):
        source()

    assert fetched == [1_000.0, 1_000.0 + RETRY_SECONDS]


def test_until_a_key_can_be_had_nothing_is_named_stored_or_loaded() -> None:
    answers = iter([TierUnavailableError("AWS is away"), TEXT])

    def fetch() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    clock = FakeClock()
    cipher = ChunkCipher(FetchedKey("VARIABLE", fetch, clock))
    entries = Entries(
        MemoryBackend(),
        Namespace({}, lambda: "w", lambda: b"root", key_id=lambda: cipher.key_id),
        chunk_bytes=100,
        ttl_seconds=60,
        lookup_timeout_seconds=20,
        io_timeout_seconds=20,
        cipher=cipher,
    )
    slot = memoryview(bytearray(100))

    with pytest.raises(TierUnavailableError, match="AWS is away"):
        entries.warm_up()
    clock.advance(RETRY_SECONDS)
    entries.store(b"k" * 36, memoryview(b"x" * 100))

    assert entries.load(b"k" * 36, slot) is Loaded.WHOLE
    assert slot == b"x" * 100


@pytest.mark.parametrize("kept", ["hunter2", base64.b64encode(b"hunter2").decode(), b"hunter2"])
def test_what_is_kept_and_is_no_key_is_refused_without_showing_it(kept: str | bytes) -> None:
    source = FetchedKey("HYPERTIER_L2_KEY_SECRET_ARN", lambda: kept)

    with pytest.raises(TierUnavailableError, match="KEY_SECRET_ARN stands for is not") as refused:
        source()

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("environ", "setting"),
    [
        ({"HYPERTIER_L2_KEY": "hunter2"}, "HYPERTIER_L2_KEY"),
        ({"HYPERTIER_L2_KEY_SECRET_ARN": "kv-key"}, "HYPERTIER_L2_KEY_SECRET_ARN"),
        ({"HYPERTIER_L2_KEY_SECRET_ARN": "arn:aws:s3:::bucket"}, "HYPERTIER_L2_KEY_SECRET_ARN"),
        ({"HYPERTIER_L2_KEY_CIPHERTEXT": "hunter2!", "AWS_REGION": REGION}, "HYPERTIER_L2_KEY_CIPHERTEXT"),
        ({"HYPERTIER_L2_KEY_CIPHERTEXT": TEXT}, "AWS_REGION"),
        ({"HYPERTIER_L2_KEY": TEXT, "HYPERTIER_L2_KEY_SECRET_ARN": ARN}, "HYPERTIER_L2_KEY_SECRET_ARN"),
    ],
    ids=["no key", "no arn", "another service", "no base64", "no region", "two keys"],
)
def test_what_cannot_work_is_one_clear_error(environ: dict[str, str], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        key_source(environ)

    assert refused.value.setting == setting
    assert "hunter2" not in str(refused.value)
    assert TEXT not in str(refused.value)


def test_without_a_variable_there_is_no_key() -> None:
    assert key_source({}) is None
    assert key_source({"HYPERTIER_L2_KEY": "", "HYPERTIER_L2_KEY_SECRET_ARN": ""}) is None
