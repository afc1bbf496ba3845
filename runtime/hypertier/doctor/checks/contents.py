"""What pods and nodes fetch when they start: weights, lifecycle scripts, images that exist already."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypertier.doctor.check import Check, Said, Talk, Verdict, fails, ok, question
from hypertier.doctor.checks import calls
from hypertier.spec.deployment import Deployment

_ECR = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/(?P<name>[^:@]+)"
    r"(:(?P<tag>[^:@]+))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def checks(deployment: Deployment) -> Iterator[Check]:
    """Weights of each endpoint, scripts of each group, and images in Amazon ECR."""
    for endpoint in deployment.endpoints:
        source = endpoint.spec.model_source_config
        if source.s3_storage is not None and source.model_source_type == "s3":
            bucket, prefix = source.s3_storage.bucket_name, (source.model_location or "").strip("/")
            yield _objects(
                f"weights of {endpoint.name}", bucket, prefix, source.s3_storage.region, deployment
            )
        elif source.fsx_storage is not None and source.model_source_type == "fsx":
            yield _file_system(f"weights of {endpoint.name}", source.fsx_storage.file_system_id)
    for group in deployment.instance_groups:
        script = group.lifecycle
        if script is not None and not script.is_local:
            bucket, _, folder = script.source.removeprefix("s3://").partition("/")
            key = "/".join(part for part in (folder.strip("/"), script.file) if part)
            yield _objects(f"lifecycle script of {group.name}", bucket, key, deployment.region, deployment)
    for setting, image in images_of(deployment).items():
        if _ECR.fullmatch(image):
            yield _image(setting, image)


def images_of(deployment: Deployment) -> dict[str, str]:
    """Setting -> an image that exists already."""
    images = deployment.images
    named = {
        "images.engine": images.engine,
        "images.router": images.router,
        "images.nvidiaDevicePlugin": images.nvidia_device_plugin,
        "images.efaDevicePlugin": images.efa_device_plugin,
    }
    return {setting: image for setting, image in named.items() if image is not None}


def _objects(name: str, bucket: str, prefix: str, region: str, deployment: Deployment) -> Check:
    asked = question(
        "s3",
        "ListObjectsV2",
        resource=f"arn:{calls.partition(deployment.region)}:s3:::{bucket}",
        region=region,
        first_page=True,
        Bucket=bucket,
        Prefix=prefix,
        MaxKeys=1,
    )

    def talk() -> Talk:
        return lies_there(bucket, prefix, (yield asked))

    return Check(name, talk, (asked,))


def _file_system(name: str, file_system_id: str) -> Check:
    asked = question("fsx", "DescribeFileSystems", FileSystemIds=[file_system_id])

    def talk() -> Talk:
        return is_mountable(file_system_id, (yield asked))

    return Check(name, talk, (asked,))


def _image(setting: str, image: str) -> Check:
    found = _ECR.fullmatch(image)
    assert found is not None
    account, region, repository = found["account"], found["region"], found["name"]
    which = {"imageDigest": found["digest"]} if found["digest"] else {"imageTag": found["tag"] or "latest"}
    asked = question(
        "ecr",
        "DescribeImages",
        resource=f"arn:{calls.partition(region)}:ecr:{region}:{account}:repository/{repository}",
        region=region,
        registryId=account,
        repositoryName=repository,
        imageIds=[which],
    )

    def talk() -> Talk:
        said = yield asked
        if said is None:
            return fails(f"{image} does not exist", f"{setting}: one that does, or push it")
        return ok(image)

    return Check(f"image of {setting}", talk, (asked,))


def lies_there(bucket: str, prefix: str, said: Said | None) -> Verdict:
    """Whether a bucket has an object that begins so."""
    if said is None:
        return fails(f"the bucket {bucket} does not exist", "name one that does")
    if not said.get("KeyCount"):
        return fails(f"nothing lies at s3://{bucket}/{prefix}", "put it there, or name where it is")
    return ok(f"s3://{bucket}/{prefix}")


def is_mountable(file_system_id: str, said: Said | None) -> Verdict:
    """Whether a file system can be mounted."""
    systems = (said or {}).get("FileSystems", ())
    if not systems:
        return fails(f"{file_system_id} does not exist", "name a file system that does")
    state = systems[0]["Lifecycle"]
    if state in ("AVAILABLE", "UPDATING"):
        return ok(f"{file_system_id}: {state}")
    return fails(f"{file_system_id}: {state}", "wait until it is AVAILABLE, or mend it")
