"""Did you mean: the known word nearest to a typed one, or none that is near enough."""

from __future__ import annotations

from collections.abc import Iterable

MIN_SIMILARITY_RATIO = 0.72  # below it a suggestion puzzles more than it helps


def nearest(typed: str, known: Iterable[str]) -> str | None:
    """The word of `known` that `typed` was meant to be, or None.

    A word that differs in case, hyphens or underscores alone wins outright. An equally good second makes
    the answer None: a guess between two is no help.
    """
    words = list(known)
    plain = _plain(typed)
    same = [word for word in words if _plain(word) == plain]
    if same:
        return same[0] if len(same) == 1 else None
    import difflib  # needed for what is misspelled alone, slow to import

    scored = sorted(
        ((difflib.SequenceMatcher(None, plain, _plain(word)).ratio(), word) for word in words), reverse=True
    )
    if not scored or scored[0][0] < MIN_SIMILARITY_RATIO:
        return None
    if len(scored) > 1 and scored[1][0] == scored[0][0]:
        return None
    return scored[0][1]


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")
