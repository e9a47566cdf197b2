"""What is asked of the resolver: the options, checked once, and which backends they address."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, get_args, get_origin, get_type_hints

from ..errors import NoBackendError, OptionError, PinMismatchError, TokenizerError
from ..plugin import Match, Query, Registered
from ..renderer.resolution import Resolution

SPELLINGS = ("renderer", "renderer_family", "renderer_name")


class Options(TypedDict, total=False):
    """Keyword options of ``resolve``, ``select_backend`` and ``explain``, with their defaults.

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
        parity: What becomes of a winner that differs from the tokenizer's chat template: under ``"prefer"`` one that won by
            name gives way to an installed renderer that is equal on every probe and turn shape; ``"warn"`` says once where it
            differs; ``"error"`` raises a ``ParityError``; ``"off"`` compares nothing. No part of a ``Resolution``.
        parse_check: ``"off"`` leaves out the check of parsed completions against their ids. No part of a ``Resolution`` either.
        detect: Where no backend covers the name, look for a renderer that gives the ids of the tokenizer's chat template.
        pin: A ``Resolution``, or its ``to_dict``: exactly that backend, renderer and options, or an error that says what
            differs.
    """

    backend: str | None
    renderer: str | None
    renderer_family: str | None
    renderer_name: str | None
    thinking: Annotated[Literal[None, True, False], None]
    thinking_retention: Annotated[Literal["all", "tool_cycle"], "all"]
    template_bridge: Annotated[bool, True]
    chat_template_kwargs: Annotated[Mapping[str, Any] | None, None]
    image_processor: Annotated[Any, None]
    marker_text: Annotated[Literal["allow", "error", "literal"], "allow"]
    dropped: Annotated[Literal["error", "warn"], "error"]
    date: Annotated[str | datetime.date | None, None]
    require_bridge: Annotated[bool, False]
    require_tools: Annotated[bool, False]
    parity: Annotated[Literal["prefer", "warn", "error", "off"], "prefer"]
    parse_check: Annotated[Literal["on", "off"], "on"]
    detect: Annotated[Literal[True, False], True]
    pin: Resolution | Mapping[str, Any] | str | os.PathLike[str] | None


_ANNOTATED = get_type_hints(Options, include_extras=True).items()
DEFAULTS: Mapping[str, Any] = {name: kind.__metadata__[0] for name, kind in _ANNOTATED if get_origin(kind) is Annotated}
"""All options but those that name something, with their defaults."""

CHOICES = {name: get_args(kind) for name, kind in get_type_hints(Options).items() if get_origin(kind) is Literal}
CHECKS = ("parity", "detect", "parse_check", "require_bridge", "require_tools")
"""Options that no id depends on; a ``Resolution`` records the others."""


@dataclass(frozen=True)
class Request:
    """A checked request: ``spelling`` is the option by which ``renderer`` was given, ``options`` are those of ``DEFAULTS``,
    ``recorded`` is what a ``Resolution`` keeps of them, but for the date, which not every renderer shows."""

    model: str
    backend: str | None
    renderer: str | None
    spelling: str
    options: Mapping[str, Any]
    recorded: Mapping[str, Any]
    pin: Resolution | None

    @classmethod
    def make(cls, model: str | None, tokenizer: Any, given: Options) -> Request:
        """The request for a model and keyword options; an error where they aren't options, or contradict the pin."""
        for name in given:
            if name not in Options.__annotations__:
                raise TypeError(f"unexpected option {name!r}; the options are {', '.join(sorted(Options.__annotations__))}")
        if isinstance(tokenizer, (str, bytes, os.PathLike)):
            raise TokenizerError(
                f"tokenizer={tokenizer!r} is a {type(tokenizer).__name__}, not a tokenizer: it has no encode",
                fix="pass the object, as AutoTokenizer.from_pretrained returns it, or leave it out to have it loaded by model=",
            )
        named = {spelling: given[spelling] for spelling in SPELLINGS if given.get(spelling) is not None}  # type: ignore[literal-required]
        if len(named) > 1:
            raise OptionError(f"{' and '.join(named)} name a renderer twice", fix="pass one of them", option=next(iter(named)))
        spelling, renderer = next(iter(named.items()), ("renderer", None))
        options = {name: given.get(name, default) for name, default in DEFAULTS.items()}
        options["date"] = _day(options["date"])
        for name, choices in CHOICES.items():
            if options[name] not in choices:
                text = ", ".join(map(repr, choices))
                raise OptionError(f"{name} must be one of {text}, not {options[name]!r}", option=name)
        pin, backend = pin_of(given.get("pin")), given.get("backend") or None
        if pin is not None:
            _refuse_contradictions(pin, {"model": model, "backend": backend, "renderer": renderer}, options, given)
            options |= {**pin.options, "image_processor": options["image_processor"], "detect": False}
            renderer = pin.renderer if pin.match.upper() in (Match.NAMED.name, Match.PARITY.name) else None
            return cls(pin.model, pin.backend, renderer, "renderer", options, recorded({**options, "date": None}), pin)
        if model is None:
            model = str(getattr(tokenizer, "name_or_path", "") or "")
        if not model and tokenizer is None:
            raise NoBackendError("neither a model nor a tokenizer was given", fix="pass model=, tokenizer= or both")
        backend = backend or os.environ.get("RLLM_RENDERER_BACKEND") or None
        return cls(model, backend, renderer, spelling, options, recorded({**options, "date": None}), None)

    def query(self, tokenizer: Any) -> Query:
        """The question for the backends."""
        options = {name: value for name, value in self.options.items() if name in Query.__dataclass_fields__}
        options["date"] = options["date"] or datetime.date.today().isoformat()
        options["chat_template_kwargs"] = dict(options["chat_template_kwargs"] or {})
        return Query(self.model, tokenizer, self.renderer, backend=self.backend, **options)

    def addressed(self, backends: Iterable[Registered]) -> list[Registered]:
        """The backends that are asked."""
        return [
            registered
            for registered in backends
            if self.backend in (None, registered.backend.name) and self.spelling in ("renderer", *registered.backend.spellings)
        ]


def pin_of(given: Any) -> Resolution | None:
    """The pin as it was passed: a record, its ``to_dict``, or the file that has it."""
    if given is None or isinstance(given, Resolution):
        return given
    if not isinstance(given, (str, os.PathLike)):
        return Resolution.from_dict(given)
    file, fix = os.fspath(given), "write it: rllm-renderer pin MODEL > FILE"
    try:
        record = json.loads(pathlib.Path(file).read_text("utf-8"))
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise PinMismatchError(f"the pin {file!r} can't be read: {why}", fix=fix) from error
    if not isinstance(record, dict):
        raise PinMismatchError(f"the pin {file!r} holds {type(record).__name__} instead of a resolution", fix=fix)
    return Resolution.from_dict(record)


def _day(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return datetime.date.fromisoformat(value if isinstance(value, str) else value.strftime("%Y-%m-%d")).isoformat()
    except (AttributeError, TypeError, ValueError):
        raise OptionError(f"date must be a day as 'YYYY-MM-DD', not {value!r}", option="date") from None


def recorded(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that differ from their defaults, as JSON values: what a ``Resolution`` keeps."""
    kept = {name: value for name, value in options.items() if name not in CHECKS}
    record = {name: value for name, value in kept.items() if value != DEFAULTS[name] and value != {}}
    if record.get("image_processor") is not None:
        record["image_processor"] = type(record["image_processor"]).__name__
    return record


def _refuse_contradictions(pin: Resolution, names: Mapping[str, str | None], options: dict[str, Any], given: Options) -> None:
    """Check that what was passed beside a pin says the same as the pin."""
    pinned: dict[str, Any] = {"model": pin.model, "backend": pin.backend, "renderer": pin.renderer, **pin.options}
    passed = {name: value for name, value in names.items() if value is not None}
    if os.path.isdir(names["model"] or ""):  # it may hold a checkpoint of the pinned model, which what is written proves
        del passed["model"]
    passed |= recorded({name: value for name, value in options.items() if name in given})
    differences = [
        f"{name}: {pinned.get(name)!r} pinned, {value!r} passed" for name, value in passed.items() if pinned.get(name) != value
    ]
    if pin.options.get("image_processor") and options["image_processor"] is None:
        differences.append(f"image_processor: {pin.options['image_processor']} pinned, none passed")
    if differences:
        text = "\n  ".join(["what was passed contradicts the pin", *differences])
        raise PinMismatchError(text, fix="leave it out, or write a new pin", differences=tuple(differences))
