"""What render and synth hold a deployment file to before they make anything of it: every rule of lint."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hypertier.errors import ManifestError
from hypertier.spec.deployment import check_kind, single_document
from hypertier.spec.finding import Finding
from hypertier.spec.lint import lint_files


def refuse_errors(name: str) -> tuple[Finding, ...]:
    """Check a deployment file and its manifests as `hypertier lint` does; return the warnings.

    Raises:
        ConfigError: it is an endpoint's manifest, or else of another kind.
        ManifestError: the first error, with its file, line and column, and how many more there are.
    """
    with suppress(ManifestError):  # what can't be read is found below
        check_kind(Path(name), single_document(Path(name)))
    findings = lint_files([name]).findings
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        first, others = errors[0], len(errors) - 1
        more = f" (and {others} more; hypertier lint {name} lists them)" if others else ""
        raise ManifestError(
            first.file,
            first.line or None,
            f"{first.message} [{first.rule}]{more}",
            first.column if first.line else None,
        )
    return findings
