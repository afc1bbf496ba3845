"""The CDK's template validator, asked of each template once.

Its rules take seconds of CPU in every run of an app (`docs/performance.md`), and a template that is what it
was when it passed passes again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import aws_cdk as cdk
import jsii
from constructs import IConstruct

FOLDER = "validated"
KEPT = 512
"""So many templates are remembered, those last seen."""


def add_validator(app: cdk.App) -> None:
    """Validate what `app` synthesizes, but for what has passed before, unless `CDK_VALIDATION` is `false`.

    `app` is made with `builtin_cloud_formation_validation=False`: this validator takes the place of the
    built-in one, with its rules. `cdk synth --no-validation` sets the variable. What has passed is remembered
    in the app's output folder, `cdk.out` by default; without the folder everything is validated.
    """
    if os.environ.get("CDK_VALIDATION") != "false":
        cdk.Validations.of(app).add_plugins(UnchangedPass(Path(app.outdir) / FOLDER))


@jsii.implements(cdk.IPolicyValidationPlugin)
class UnchangedPass:
    """The CDK's `CloudFormationValidatePlugin` for templates that have not passed it yet.

    A template passes if the validator has nothing to say of it, not even a warning. It is remembered by its
    content, its account and Region, and the CDK's version, as an empty file in `folder`.
    """

    def __init__(
        self,
        folder: Path,
        validator: Callable[[], cdk.IPolicyValidationPlugin] = cdk.CloudFormationValidatePlugin,
    ) -> None:
        self._folder = folder
        self._make_validator = validator  # which compiles its rules as soon as it is made

    @property
    def name(self) -> str:
        """The CDK looks for its own validator's findings by this name."""
        return "CloudFormation Validate"

    @property
    def version(self) -> None:
        """Not told: only a validator that was made knows."""

    @property
    def rule_ids(self) -> None:
        """Not told either."""

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        """What the validator finds in templates that have not passed."""
        digests = {template.template_path: digest(template) for template in context.stack_templates}
        new = [each for each in context.stack_templates if not self._has_passed(digests[each.template_path])]
        if not new:
            return cdk.PolicyValidationPluginReport(success=True, violations=[])
        report = self._make_validator().validate(Templates(context, new))
        good = passed([each.template_path for each in new], report)
        # Another run may have written into the folder meanwhile: which of both was looked at, nobody knows.
        after = {each.template_path: digest(each) for each in new}
        self._remember(digests[path] for path in good if after[path] == digests[path])
        return report

    def _has_passed(self, digest: str) -> bool:
        file = self._folder / digest
        with suppress(OSError):  # of somebody else's it may be read alone
            os.utime(file)
        return file.is_file()

    def _remember(self, digests: Iterable[str]) -> None:
        with suppress(OSError):  # what is not remembered is validated again
            self._folder.mkdir(parents=True, exist_ok=True)
            for each in digests:
                (self._folder / each).touch()
            forget_oldest(self._folder, KEPT)


@jsii.implements(cdk.IPolicyValidationContext)
class Templates:
    """A context with some of its templates."""

    def __init__(
        self, context: cdk.IPolicyValidationContext, templates: Sequence[cdk.PolicyValidationStack]
    ) -> None:
        self._context = context
        self._templates = list(templates)

    @property
    def template_paths(self) -> list[str]:
        """Where they are."""
        return [each.template_path for each in self._templates]

    @property
    def stack_templates(self) -> list[cdk.PolicyValidationStack]:
        """The templates."""
        return self._templates

    @property
    def account_id(self) -> str | None:
        """The account of all, where it is one."""
        return self._context.account_id

    @property
    def region(self) -> str | None:
        """The Region of all, where it is one."""
        return self._context.region

    @property
    def app_construct(self) -> IConstruct:
        """The app."""
        return self._context.app_construct


def forget_oldest(folder: Path, kept: int) -> None:
    """Remove all files of `folder` but the `kept` last touched; another run may be doing the same."""
    touched: list[tuple[int, Path]] = []
    for file in folder.iterdir():
        with suppress(FileNotFoundError):
            touched.append((file.stat().st_mtime_ns, file))
    for _, file in sorted(touched, reverse=True)[kept:]:
        file.unlink(missing_ok=True)


def digest(template: cdk.PolicyValidationStack) -> str:
    """What the validator's answer depends on, as a name of a file."""
    about = [version("aws-cdk-lib"), template.account_id or "", template.region or ""]
    content = Path(template.template_path).read_bytes()
    return sha256("\0".join([*about, ""]).encode() + content).hexdigest()


def passed(paths: Iterable[str], report: cdk.PolicyValidationPluginReport) -> list[str]:
    """The templates of which `report` says nothing; none where a finding doesn't say whose it is."""
    found = [resource.template_path for each in report.violations for resource in each.violating_resources]
    has_owner = all(each.violating_resources for each in report.violations) and None not in found
    return [path for path in paths if path not in found] if has_owner else []
