"""What the answers to one prompt say of the cache: pure functions, a check each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hypertier.verification.answer import Answer

Result = Literal["passed", "failed", "could not be told"]
PASSED: Result = "passed"
FAILED: Result = "failed"
UNTOLD: Result = "could not be told"

TURNS = "roundrobin"  # the strategy by which another replica answers
HIT_RATIO = 0.5
"""Share of a prompt that a hit must bring: what is shared by all prompts, and the last block, is far less."""
TIE_NATS = 0.5
"""Log probabilities this near may change places by rounding: a prompt that is computed in one piece and one
of which only the end is computed are summed up in another order."""
DETAILS_TO_DO = (
    "put --enable-prompt-tokens-details into spec.worker.args; if it is there, nothing was cached, since "
    "some versions of vLLM leave out a count of zero: --expect-details takes it so"
)
EXPLAIN_TO_DO = "routing.explainOnRequest: true in the deployment file has the router tell"


@dataclass(frozen=True, slots=True)
class Check:
    """One question and what was found; `to_do` is empty where there is nothing to do."""

    name: str
    result: Result
    why: str
    to_do: str = ""


def cached(first: Answer, again: Sequence[Answer], *, expects_details: bool) -> Check:
    """Whether the second of two same prompts was answered from a cache.

    `again` are the answers to the repeated prompt, in their order. With `expects_details` an answer that
    tells no count counts as zero.
    """
    name = "cached"
    known = [answer for answer in (first, *again) if answer.cached_tokens is not None]
    if not known and not expects_details:
        return Check(name, UNTOLD, "no answer tells how many tokens were cached", DETAILS_TO_DO)
    if any((answer.cached_tokens or 0) > (answer.prompt_tokens or 0) for answer in known):
        return Check(name, FAILED, "an answer tells more cached tokens than its prompt has", "what answers?")
    if first.holds(HIT_RATIO):
        why = (
            f"the first answer to a prompt that is new tells {_share(first)} cached: the count proves nothing"
        )
        return Check(
            name, UNTOLD, why, "with pdSpec what is moved from where it was computed is counted, too"
        )
    own = repeated(first, again)
    hits = [answer for answer in own if answer.holds(HIT_RATIO)]
    if hits:
        return Check(name, PASSED, f"sent again, {_share(hits[0])} tokens came from a cache")
    if not own:
        why = f"{len(again)} repetitions were answered by as many replicas, and {first.replica} was none"
        return Check(
            name, UNTOLD, why, "try again; with another strategy than roundrobin the first one answers"
        )
    best = max(own, key=lambda answer: answer.cached_tokens or 0)
    why = f"sent again {len(own)} times, {_share(best)} tokens came from a cache at best"
    to_do = "is --enable-prefix-caching on, and the prompt longer than a block (--prompt-tokens)?"
    if first.replica is None:
        to_do += f" Which replica answered is not told: {EXPLAIN_TO_DO}"
    return Check(name, FAILED, why, to_do)


def repeated(first: Answer, again: Sequence[Answer]) -> list[Answer]:
    """Of `again` what came from a replica that had answered before, or from one that nobody tells."""
    seen, found = {first.replica}, []
    for answer in again:
        if answer.replica is None or answer.replica in seen:
            found.append(answer)
        seen.add(answer.replica)
    return found


def same(answers: Sequence[Answer]) -> Check:
    """Whether all answers to one prompt are the first one's, token by token; a tie proves nothing."""
    name = "same answer"
    first, *others = answers
    if not others:
        return Check(name, UNTOLD, "there is no second answer to compare")
    tie: Check | None = None
    for other in others:
        place = next(
            (n for n, pair in enumerate(zip(first.tokens, other.tokens, strict=False)) if pair[0] != pair[1]),
            min(len(first.tokens), len(other.tokens)),
        )
        if first.text == other.text:
            continue
        found = _told_token(first, place), _told_token(other, place)
        if _is_tie(first, other, place):
            why = f"token {place + 1} is {found[0]} or {found[1]}, which are as likely but for rounding"
            tie = tie or Check(name, UNTOLD, why, "try again: another prompt has other tokens")
            continue
        why = (
            f"token {place + 1} is {found[0]} of the first answer, and {found[1]} of one with a cached prompt"
        )
        return Check(
            name,
            FAILED,
            why,
            "the cache holds what belongs to another prompt or model: empty it (hypertier cache clear), "
            "raise cache.l2.epoch, and compare the engines' weights and flags",
        )
    alike = f"{len(answers)} answers of {len(first.tokens)} tokens are the same"
    return tie or Check(name, PASSED, alike)


def l2(first: Answer, later: Sequence[Answer], *, expects_details: bool) -> Check:
    """Whether a replica that had not computed the prompt had it from L2.

    `later` are all answers after the first, in their order: of each other replica the first one counts.
    """
    name = "L2"
    if first.replica is None:
        return Check(name, UNTOLD, "the router does not tell which replica answers", EXPLAIN_TO_DO)
    others = [answer for answer in later if answer.replica not in (None, first.replica)]
    fresh = {answer.replica: answer for answer in reversed(others)}
    if not fresh:
        why = f"{first.replica} answered all {len(later) + 1} requests"
        if any(answer.strategy == TURNS for answer in later):
            return Check(name, UNTOLD, f"{why}, in turns", "is there another healthy replica?")
        to_do = "strategyByHeader: true in the routers' routes lets this command have another replica's turn"
        return Check(name, UNTOLD, why, to_do)
    if not expects_details and all(answer.cached_tokens is None for answer in (first, *later)):
        return Check(name, UNTOLD, "no answer tells how many tokens were cached", DETAILS_TO_DO)
    hits = [answer for answer in fresh.values() if answer.holds(HIT_RATIO)]
    if hits and first.holds(HIT_RATIO):
        return Check(name, UNTOLD, "the first answer tells cached tokens already: the count proves nothing")
    if hits:
        return Check(
            name, PASSED, f"{hits[0].replica}, which had not computed it, had {_share(hits[0])} tokens"
        )
    why = f"{', '.join(sorted(str(replica) for replica in fresh))} had to compute what {first.replica} had"
    return Check(
        name,
        FAILED,
        why,
        "is L2 on and reachable (hypertier cache ls)? Where loading is slower than computing the gate keeps "
        "it closed: hypertier plan says from which length on it pays, --prompt-tokens sends that; --no-l2 "
        "leaves this check out",
    )


def _is_tie(first: Answer, other: Answer, place: int) -> bool:
    """Both answers found the other's token about as likely as their own, where they part."""
    if place >= min(len(first.tokens), len(other.tokens), len(first.likely), len(other.likely)):
        return False
    mine, theirs = first.tokens[place], other.tokens[place]
    return all(
        mine in likely and theirs in likely and abs(likely[mine] - likely[theirs]) <= TIE_NATS
        for likely in (first.likely[place], other.likely[place])
    )


def _told_token(answer: Answer, place: int) -> str:
    return repr(answer.tokens[place][:40]) if place < len(answer.tokens) else "the end"


def _share(answer: Answer) -> str:
    return f"{answer.cached_tokens or 0} of {answer.prompt_tokens or 'unknown'}"
