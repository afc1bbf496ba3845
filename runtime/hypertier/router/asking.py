"""What a request asks for: which model, by which strategy, and what a strategy may know of it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from hypertier.router.api import openai
from hypertier.router.api.openai import InferenceRequest
from hypertier.router.http.heads import Request
from hypertier.router.replicas.models import (
    Models,
    form_model,
    model_in_path,
    model_in_query,
    with_model_in_path,
)
from hypertier.router.routes.canary import Canaries
from hypertier.router.routes.routes import STRATEGY_HEADER, Route, Routes
from hypertier.router.settings import RouterSettings


class Asking:
    """Reads requests, writes the names of models into them that replicas know, and follows routes.

    `canaries` hear of splits that could not be followed.
    """

    def __init__(self, settings: RouterSettings, models: Models) -> None:
        self.canaries: Canaries | None = None
        self._models = models
        self._routes: Routes | None = None
        self._was_routed = False
        self._written_session_key = settings.session_key.lower().encode()
        asks_session = settings.strategy == "session" and settings.session_claim is None
        self._session_key = self._written_session_key if asks_session else None
        self._keep_prompt = settings.strategy == "kvaware"
        self._hash_prompt = settings.remembers_prompts

    def use(self, routes: Routes) -> None:
        """What the routes say applies to every request from now on."""
        self._routes = routes if routes != Routes() else None
        if self._routes is None and not self._was_routed:
            return
        self._was_routed = True
        # Whatever chooses now, the indexes of the others stay warm.
        self._hash_prompt = True
        self._session_key = self._session_key or self._written_session_key

    def read(self, request: Request, seed: bytes) -> InferenceRequest:
        """What the request asks for, after an alias in it gave way to the model's own name."""
        if self._models.aliases:
            _rename_model(request, self._models.aliases)
        return self._read(request, seed)

    def routed(
        self,
        request: Request,
        inference: InferenceRequest,
        request_id: bytes,
        seed: bytes,
        *,
        is_sent: bool = True,
    ) -> InferenceRequest:
        """As the routes have it: another model may answer, another strategy choose.

        What is asked about, and not sent, counts as no request to a model.
        """
        routes = self._routes
        if routes is None:
            return inference
        header = request.field(STRATEGY_HEADER) if routes.by_header else None
        strategy = routes.strategy_of(inference.model, header)
        model = inference.model
        route = routes.models.get(model) if model is not None else None
        if model is not None and route is not None:
            drawn = route.variant(_route_key(inference, request_id))
            variant = None if drawn is None else self._served(model, route, drawn)
            if drawn is not None and variant is not None and variant != drawn:
                self._fell_back(model, drawn, variant, is_sent=is_sent)
            if variant is not None and variant != model:
                session = inference.session
                _rename_model(request, {model: variant})
                inference = self._read(request, seed).replace(session=session)
        return inference.replace(strategy=strategy) if strategy is not None else inference

    def shadow(self, inference: InferenceRequest, request_id: bytes) -> Mapping[bytes, bytes] | None:
        """The model to whose shadow a copy of this request goes: its name, and the shadow's."""
        if self._routes is None or inference.model is None:
            return None
        route = self._routes.models.get(inference.model)
        if route is None or route.shadow is None or not route.is_shadowed(_route_key(inference, request_id)):
            return None
        return {inference.model: route.shadow}

    def copied(
        self, request: Request, renamed: Mapping[bytes, bytes], seed: bytes
    ) -> tuple[Request, InferenceRequest]:
        """A copy that asks for another model."""
        other = copy(request)
        _rename_model(other, renamed)
        return other, self._read(other, seed)

    def _read(self, request: Request, seed: bytes) -> InferenceRequest:
        inference = openai.read(
            request,
            session_key=self._session_key,
            hash_prompt=self._hash_prompt,
            keep_prompt=self._keep_prompt,
            seed=seed,
        )
        return self._with_model(request, inference) if inference.model is None else inference

    def _with_model(self, request: Request, inference: InferenceRequest) -> InferenceRequest:
        """Where the body is no JSON, or there is none: a form's field, or the path of one model."""
        span = form_model(request) if request.body else None
        if span is not None:
            return inference.replace(model=bytes(request.body[span[0] : span[1]]))
        model = model_in_query(request.target) if request.upgrades else model_in_path(request.path)
        if model is not None and request.upgrades:
            model = self._models.aliases.get(model, model)
        return inference if model is None else inference.replace(model=model)

    def _served(self, name: bytes, route: Route, variant: bytes) -> bytes:
        """The variant; where no replica has it, the largest of the split that one has, or else the name."""
        if self._models.refusal(variant) is None:
            return variant
        by_share = sorted(route.split, key=lambda entry: -entry[1])
        for other in (*(model for model, _ in by_share), name):
            if self._models.refusal(other) is None:
                return other
        return variant  # the client is told

    def _fell_back(self, name: bytes, drawn: bytes, variant: bytes, *, is_sent: bool) -> None:
        """Count it, where it is a request and no question."""
        if is_sent and self.canaries is not None:
            self.canaries.fall_back(name, drawn, variant)


def _rename_model(request: Request, names: Mapping[bytes, bytes]) -> None:
    """Write the other name of its model into a request: its body, or the path of one model."""
    asked = model_in_path(request.path)
    if asked is not None:
        model = names.get(asked)
        if model is not None:
            request.target = with_model_in_path(request.target, model)
        return
    span = form_model(request)
    if span is None:
        body = openai.rename_model(request.body, request.path, names)
    else:
        named = names.get(bytes(request.body[span[0] : span[1]]))
        body = request.body if named is None else openai.spliced(request.body, span, named)
    request.body = body


def _route_key(inference: InferenceRequest, request_id: bytes) -> bytes:
    """A session, or prompts that begin alike, stay with one model: what is cached there is of use."""
    if inference.session:
        return inference.session
    return b"%x" % inference.block_hashes[0] if inference.block_hashes else request_id
