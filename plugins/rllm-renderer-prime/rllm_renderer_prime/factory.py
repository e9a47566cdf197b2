"""From a query to a renderer: the typed config, explicit in all that upstream would look up by the tokenizer's name."""

from __future__ import annotations

import inspect
import re
from types import SimpleNamespace
from typing import Any

from rllm_renderer_core.errors import OptionError, RendererError, TokenizerError
from rllm_renderer_core.normal_form.tokenizer import chat_template
from rllm_renderer_core.plugin import Coverage, Match, Query

from .families import Variant
from .harmony import with_vocabulary
from .renderer import PrimeRenderer

BACKEND = "prime"
SWITCHES = ("enable_thinking", "thinking")
"""Names under which families have a boolean switch for thinking."""


def create_renderer(query: Query, coverage: Coverage) -> PrimeRenderer:
    """Upstream's renderer of ``coverage.renderer`` on ``query.tokenizer``, behind the adapter.

    Raises:
        OptionError, TokenizerError: As for ``PrimeBackend.create``.
        RendererError: What is imported isn't what was read from the files.
    """
    from renderers.base import MODEL_RENDERER_MAP  # type: ignore[import-untyped, unused-ignore]
    from renderers.configs import _config_class_for  # type: ignore[import-untyped, unused-ignore]

    family = coverage.renderer
    if coverage.match is Match.EXACT and MODEL_RENDERER_MAP.get(query.model) != family:
        raise RendererError(
            f"the imported renderers map {query.model!r} to {MODEL_RENDERER_MAP.get(query.model)!r}, its file to {family!r}",
            fix=f"reinstall renderers, or pass renderer_family={family!r}",
        )
    listed = query.model if MODEL_RENDERER_MAP.get(query.model) == family else ""
    template = chat_template(query.tokenizer) or ""
    # A model that upstream lists is known by its name; what another one is, its template tells.
    opener = "" if listed else template_opener(query.tokenizer) or ""
    fields = _template_fields(query, coverage, _config_class_for(family), Variant(family, listed, template, opener))
    switch = next((name for name in SWITCHES if name in fields), None)
    thinking = None if switch is None else bool(fields[switch])
    variant = Variant(family, listed, template, opener, thinking, fields)
    _refuse_2507(query, variant)
    config = config_for(_config_class_for(family), variant, query)
    return PrimeRenderer(_upstream(query, variant, config), query.tokenizer, variant, media=query.image_processor is not None)


def _template_fields(query: Query, coverage: Coverage, config_class: Any, variant: Variant) -> dict[str, Any]:
    """Values of the family's template fields: what the user set, and what upstream would guess from the tokenizer's name."""
    family, listed, template = variant.family, variant.model, variant.template
    allowed = config_class.template_field_names()
    fields = dict(query.chat_template_kwargs)
    unknown = sorted(set(fields) - allowed)
    if unknown:
        what = f" {', '.join(map(repr, unknown))}: the template of {family} has {', '.join(sorted(allowed)) or 'no variables'}"
        raise _cannot("chat_template_kwargs", what, f"leave {', '.join(unknown)} out")
    if fields.get("low_effort") and family == "nemotron-3" and "low_effort" not in template and "Super" not in listed:
        what = " 'low_effort': only the template of Nemotron 3 Super has it"
        raise _cannot("chat_template_kwargs", what, "leave low_effort out")
    switch = next((name for name in SWITCHES if name in allowed), None)
    if query.thinking is not None:
        if switch is None:
            others = sorted(allowed & {"reasoning_effort"})
            fix = f"use chat_template_kwargs with {others[0]}" if others else "leave thinking out"
            raise _cannot("thinking", f"={query.thinking}: the template of {family} has no such switch", fix)
        if fields.setdefault(switch, query.thinking) is not query.thinking:
            raise OptionError(
                f"thinking={query.thinking} and chat_template_kwargs {switch}={fields[switch]!r} contradict each other",
                fix="pass one of them",
                option="thinking",
                backend=BACKEND,
            )
    if switch is not None and fields.get(switch) is None:
        fields[switch] = _thinks_by_default(variant, config_class.model_fields[switch].default)
    if "model_identity" in allowed and "model_identity" not in fields:
        identity = _identity(listed, template)
        if identity is not None:
            fields["model_identity"] = identity
    for name, value in (coverage.data or {}).items():
        fields.setdefault(name, value)
    return fields


def _thinks_by_default(variant: Variant, default: bool | None) -> bool:
    """Upstream's knowledge of a listed model; for others what the tokenizer's template opens a turn with; else the family's."""
    if variant.model:
        if default is not None:
            return default
        import renderers.qwen35  # type: ignore[import-untyped, unused-ignore]

        # Private, but the only place where upstream writes these defaults.
        return bool(getattr(renderers.qwen35, "_ENABLE_THINKING_DEFAULTS", {}).get(variant.model, True))
    if "</think>" in variant.opener:
        return False
    if "<think>" in variant.opener:
        return True
    return True if default is None else default


def template_opener(tokenizer: Any) -> str | None:
    """What the tokenizer's chat template, without options, writes to open a turn; ``None`` where that can't be told."""
    if chat_template(tokenizer) is None or not callable(getattr(tokenizer, "apply_chat_template", None)):
        return None
    probe = [{"role": "user", "content": "ping"}]
    try:
        without, opened = (
            str(tokenizer.apply_chat_template(probe, add_generation_prompt=opener, tokenize=False)) for opener in (False, True)
        )
    except Exception:  # a template of unknown make may raise anything; then it tells nothing
        return None
    return opened.removeprefix(without) if opened.startswith(without) else None


def _identity(listed: str, template: str) -> str | None:
    """The system text of MiniMax's templates, which name the release; upstream has M2.5's for all of them."""
    if listed == "MiniMaxAI/MiniMax-M2":
        return "You are a helpful assistant."
    found = re.search(r'set model_identity = "([^"]*)"', template)
    return None if listed or found is None else found[1]


def _refuse_2507(query: Query, variant: Variant) -> None:
    what = "no reasoning" if variant.unthinking_qwen3 else "always reasoning" if variant.opens_thinking else None
    asked = query.thinking if query.thinking is not None else query.chat_template_kwargs.get("enable_thinking")
    if what is not None and asked is not None:
        why = f"={asked}: the template of {query.model or 'this model'} has {what}"
        raise _cannot("thinking", why, "leave thinking out")


def _cannot(option: str, why: str, fix: str) -> OptionError:
    return OptionError(f"backend {BACKEND!r} can't honour {option}{why}", fix=fix, option=option, backend=BACKEND)


def config_for(config_class: Any, variant: Variant, query: Query) -> Any:
    """The typed config. The core decides retention, so upstream is told to keep all, which changes bridges and no render."""
    fields = dict(variant.fields)
    if variant.family == "qwen3":
        fields.pop("enable_thinking", None)  # an opener of ours, see opener_for
    try:
        try:
            return config_class(thinking_retention="all", **fields)
        except ValueError:
            # A template field of the user's may imply another retention; then upstream's own policy is set aside later.
            return config_class(**fields)
    except ValueError as error:
        problems = getattr(error, "errors", None)
        text = "; ".join(str(each["msg"]) for each in problems()) if callable(problems) else str(error)
        why = f" {dict(query.chat_template_kwargs)!r}: {text}"
        raise _cannot("chat_template_kwargs", why, "correct the value") from error


class _Named:
    """A tokenizer as upstream's constructors should see it: the caller's, under the name of the model that is rendered.

    They look up variants by ``name_or_path``. The caller's object isn't touched, and takes the place of this one afterwards.
    """

    def __init__(self, tokenizer: Any, name_or_path: str) -> None:
        self.name_or_path = name_or_path
        self._inner = tokenizer

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # while unpickling
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._inner(*args, **kwargs)


def _upstream(query: Query, variant: Variant, config: Any) -> Any:
    import renderers  # type: ignore[import-untyped, unused-ignore]

    # For a model that isn't listed, a name that upstream knows nothing about; Super's, where the template is Super's.
    name = variant.model or ("super" if "low_effort" in variant.template else "")
    view = _Named(query.tokenizer, name)
    try:
        renderer: Any
        if variant.family == "gpt-oss":
            renderer = with_vocabulary(lambda: renderers.create_renderer(view, config), query.tokenizer)
        else:
            renderer = renderers.create_renderer(view, config)
        if query.image_processor is not None:
            renderer = _with_processor(renderer, view, config, query)
    except RendererError:
        raise
    except AssertionError as error:
        raise TokenizerError(
            f"the tokenizer of {query.model!r} isn't one of {variant.family}: {error}",
            fix="pass the model's own tokenizer, or another renderer_family=",
        ) from error
    except ValueError as error:
        raise TokenizerError(f"{variant.family} can't be built on this tokenizer: {error}", fix="pass the model's") from error
    for attribute, value in list(vars(renderer).items()):
        if value is view:
            setattr(renderer, attribute, query.tokenizer)
    if getattr(renderer, "effective_thinking_retention", "all") != "all":
        renderer.effective_thinking_retention = "all"
    return renderer


def _with_processor(renderer: Any, view: Any, config: Any, query: Query) -> Any:
    if "processor" not in inspect.signature(type(renderer).__init__).parameters:
        raise _cannot("image_processor", f": {config.name} renders text alone", "leave image_processor out")
    processor = query.image_processor
    if not hasattr(processor, "image_processor"):  # the image half alone, which is all that upstream uses of it
        processor = SimpleNamespace(image_processor=processor)
    return type(renderer)(view, config, processor=processor)
