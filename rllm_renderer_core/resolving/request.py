"""What is asked of the resolver: the options, checked once, and which backends they address."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

from ..errors import NoBackendError, OptionError, PinMismatchError, TokenizerError
from ..plugin import Backend, Coverage, Match, Query, Registered
from ..renderer.resolution import Resolution

SPELLINGS = ("renderer", "renderer_family", "renderer_name")
DEFAULTS: Mapping[str, Any] = {
    "thinking": None,
    "thinking_retention": "all",
    "template_bridge": True,
    "chat_template_kwargs": None,
    "image_processor": None,
    "marker_text": "allow",
    "dropped": "error",
    "date": None,
}
"""Options that ids may depend on, with their defaults: those that a ``Resolution`` records."""

HOW: Mapping[str, Any] = {"parity": "prefer", "detect": True, "parse_check": "on"}
"""Options that no id depends on."""

CHOICES = {
    "thinking": (None, True, False),
    "thinking_retention": ("all", "tool_cycle"),
    "marker_text": ("allow", "error", "literal"),
    "dropped": ("error", "warn"),
    "parity": ("prefer", "warn", "error", "off"),
    "parse_check": ("on", "off"),
    "detect": (True, False),
}


class Options(TypedDict, total=False):
    """Keyword options of ``resolve``, ``select_backend`` and ``explain``.

    Attributes:
        backend: Take this backend (also ``RLLM_RENDERER_BACKEND``; the argument counts more).
        renderer: Take the renderer of this name, whatever the model is called.
        renderer_family: rLLM's spelling of ``renderer`` for the backends that declare it (prime).
        renderer_name: rLLM's spelling of ``renderer`` for the backends that declare it (tinker, fireworks).
        thinking: Whether the model thinks; ``None`` is the model's own default.
        thinking_retention: ``"all"`` keeps sampled reasoning verbatim across new queries; ``"tool_cycle"`` declines the bridge
            there, as a template that strips old reasoning would.
        template_bridge: Whether the chat-template backend bridges where an experiment proves the bridge; ``False`` declines
            each. Other backends bridge as they do.
        chat_template_kwargs: Variables of the model's template.
        image_processor: For vision renderers.
        marker_text: ``"allow"`` renders control tokens that message text spells as the template does; ``"error"`` refuses
            such messages; ``"literal"`` tokenizes them as ordinary text.
        dropped: ``"error"`` refuses messages, calls and tool declarations that the format leaves out; ``"warn"`` says it
            once and renders without them, as the model's template does. ``Rollout`` never goes on without a message.
        date: The day that formats with a date show (gpt-oss, Llama 3), as ``YYYY-MM-DD`` or a ``datetime.date``; by default
            the day of ``resolve``. Recorded where it shows, so that a pin holds it.
        require_bridge: Refuse a winner that can't bridge.
        require_tools: Refuse a winner that can't parse tool calls; it says why not.
        parity: What becomes of a winner that differs from the tokenizer's chat template, where there is one: under
            ``"prefer"`` one that won by name gives way to an installed renderer that is equal on every probe and turn shape,
            where there is one, and ``"warn"`` says once where it differs; ``"error"`` raises a ``ParityError``; ``"off"``
            compares nothing. No part of a ``Resolution``, which says what came of it.
        parse_check: ``"off"`` leaves out the check of parsed completions against their ids. No part of a ``Resolution`` either.
        detect: Where no backend covers the name, look for a renderer that gives the ids of the tokenizer's chat template.
        pin: A ``Resolution``, or its ``to_dict``: exactly that backend, renderer and options, or an error that says what
            differs.
    """

    backend: str | None
    renderer: str | None
    renderer_family: str | None
    renderer_name: str | None
    thinking: bool | None
    thinking_retention: Literal["all", "tool_cycle"]
    template_bridge: bool
    chat_template_kwargs: Mapping[str, Any] | None
    image_processor: Any
    marker_text: Literal["allow", "error", "literal"]
    dropped: Literal["error", "warn"]
    date: str | datetime.date | None
    require_bridge: bool
    require_tools: bool
    parity: Literal["prefer", "warn", "error", "off"]
    parse_check: Literal["on", "off"]
    detect: bool
    pin: Resolution | Mapping[str, Any] | str | os.PathLike[str] | None


@dataclass(frozen=True)
class Request:
    """A checked request. ``spelling`` is the name of the option by which ``renderer`` was given."""

    model: str
    backend: str | None
    renderer: str | None
    spelling: str
    options: Mapping[str, Any]
    require_bridge: bool
    pin: Resolution | None = None
    parity: str = "prefer"
    detect: bool = True
    parse_check: bool = True
    require_tools: bool = False

    @classmethod
    def make(cls, model: str | None, tokenizer: Any, given: Options) -> Request:
        """The request for a model and keyword options.

        Raises:
            TypeError: An option that doesn't exist.
            OptionError: A value that an option doesn't take.
            NoBackendError: Neither a model nor a tokenizer.
            PinMismatchError: An option that contradicts the pin.
        """
        for name in given:
            if name not in Options.__annotations__:
                raise TypeError(f"unexpected option {name!r}; the options are {', '.join(sorted(Options.__annotations__))}")
        if isinstance(tokenizer, (str, bytes, os.PathLike)):
            raise TokenizerError(
                f"tokenizer={tokenizer!r} is a {type(tokenizer).__name__}, not a tokenizer: it has no encode",
                fix="pass the object, as AutoTokenizer.from_pretrained returns it, or leave it out to have it loaded by model=",
            )
        pin = given.get("pin")
        if isinstance(pin, (str, os.PathLike)):
            pin = _read(pin)
        elif pin is not None and not isinstance(pin, Resolution):
            pin = Resolution.from_dict(pin)
        asked = {spelling: given[spelling] for spelling in SPELLINGS if given.get(spelling) is not None}  # type: ignore[literal-required]
        if len(asked) > 1:
            raise OptionError(f"{' and '.join(asked)} name a renderer twice", fix="pass one of them", option=next(iter(asked)))
        spelling, renderer = next(iter(asked.items()), ("renderer", None))
        options = {name: given.get(name, default) for name, default in DEFAULTS.items()}
        options["date"] = _day(options["date"])
        how = {name: given.get(name, default) for name, default in HOW.items()}
        for name, choices in CHOICES.items():
            value = {**options, **how}[name]
            if value not in choices:
                text = ", ".join(map(repr, choices))
                raise OptionError(f"{name} must be one of {text}, not {value!r}", option=name)
        backend = given.get("backend") or (None if pin else os.environ.get("RLLM_RENDERER_BACKEND")) or None
        if pin is not None:
            pinned = _pinned(pin, model, backend, renderer, given, options)
            pinned = replace(pinned, parity=str(how["parity"]), detect=False, parse_check=how["parse_check"] == "on")
            return replace(pinned, require_tools=bool(given.get("require_tools", False)))
        if model is None:
            model = str(getattr(tokenizer, "name_or_path", "") or "")
        if not model and tokenizer is None:
            raise NoBackendError("neither a model nor a tokenizer was given", fix="pass model=, tokenizer= or both")
        required = bool(given.get("require_bridge", False))
        request = cls(model, backend, renderer, spelling, options, required, None, str(how["parity"]), bool(how["detect"]))
        tools = bool(given.get("require_tools", False))
        return replace(request, parse_check=how["parse_check"] == "on", require_tools=tools)

    def query(self, tokenizer: Any) -> Query:
        """The question for the backends."""
        wanted = {name: value for name, value in self.options.items() if name not in ("marker_text", "dropped")}
        wanted["date"] = wanted["date"] or datetime.date.today().isoformat()
        wanted["chat_template_kwargs"] = dict(wanted["chat_template_kwargs"] or {})
        return Query(self.model, tokenizer, self.renderer, backend=self.backend, **wanted)

    def addresses(self, registered: Registered) -> bool:
        """Whether this backend is among those asked."""
        if self.backend is not None and registered.backend.name != self.backend:
            return False
        return self.spelling == "renderer" or self.spelling in registered.backend.spellings


def _read(file: str | os.PathLike[str]) -> Resolution:
    """The pin in a file.

    Raises:
        PinMismatchError: It can't be read, or holds none.
    """
    try:
        with open(file, encoding="utf-8") as stream:
            data = json.load(stream)
    except (OSError, ValueError) as error:
        what = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise PinMismatchError(
            f"the pin {os.fspath(file)!r} can't be read: {what}", fix="write it: rllm-renderer pin MODEL > FILE"
        ) from error
    if not isinstance(data, dict):
        raise PinMismatchError(f"the pin {os.fspath(file)!r} holds {type(data).__name__} instead of a resolution")
    return Resolution.from_dict(data)


def _day(value: Any) -> str | None:
    """The day as ``YYYY-MM-DD``.

    Raises:
        OptionError: It is none.
    """
    if value is None:
        return None
    try:
        return datetime.date.fromisoformat(value if isinstance(value, str) else value.strftime("%Y-%m-%d")).isoformat()
    except (AttributeError, TypeError, ValueError):
        raise OptionError(f"date must be a day as 'YYYY-MM-DD', not {value!r}", option="date") from None


def refused_option(backend: Backend, query: Query, coverage: Coverage) -> tuple[str, Any] | None:
    """The first option that was set and that the backend can't honour, with its value; ``None`` where there is none."""
    for option in ("thinking", "chat_template_kwargs", "image_processor"):
        value = getattr(query, option)
        if value in (None, False, {}) and not (option == "thinking" and value is False):
            continue
        if option not in backend.options:
            return option, value
    return None


def recorded(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that differ from their defaults, as JSON values: what a ``Resolution`` keeps."""
    out = {name: value for name, value in options.items() if value != DEFAULTS[name] and value != {}}
    if out.get("image_processor") is not None:
        out["image_processor"] = type(out["image_processor"]).__name__
    return out


def _pinned(
    pin: Resolution, model: str | None, backend: str | None, renderer: str | None, given: Options, options: dict[str, Any]
) -> Request:
    """The pin as a request; what else was passed must say the same."""
    mine = recorded({name: value for name, value in options.items() if name in given})
    contradictions = [
        f"{name}: {theirs!r} pinned, {value!r} passed"
        for name, value, theirs in (
            ("model", model, pin.model),
            ("backend", backend, pin.backend),
            ("renderer", renderer, pin.renderer),
        )
        if value is not None and value != theirs
    ] + [
        f"{name}: {pin.options.get(name)!r} pinned, {value!r} passed"
        for name, value in mine.items()
        if pin.options.get(name) != value
    ]
    if pin.options.get("image_processor") and options["image_processor"] is None:
        contradictions.append(f"image_processor: {pin.options['image_processor']} pinned, none passed")
    if contradictions:
        lines = "\n  ".join(contradictions)
        raise PinMismatchError(
            f"what was passed contradicts the pin\n  {lines}",
            fix="leave it out, or write a new pin",
            differences=tuple(contradictions),
        )
    restored = {**DEFAULTS, **pin.options, "image_processor": options["image_processor"]}
    by_name = Match[pin.match.upper()] in (Match.NAMED, Match.PARITY)
    required = bool(given.get("require_bridge", False))
    return Request(pin.model, pin.backend, pin.renderer if by_name else None, "renderer", restored, required, pin)
