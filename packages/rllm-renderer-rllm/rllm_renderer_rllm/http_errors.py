"""Errors as an OpenAI server answers them: what is wrong with a request is a 400, which no client tries again."""

from __future__ import annotations

from typing import Any

from rllm_renderer_core.errors import MessageError, NoBackendError, OptionError, RendererError, RenderError, ToolError


def http_status(error: RendererError) -> int:
    """400 where the messages or tools of a request can't be used, else 500."""
    return 400 if isinstance(error, (MessageError, ToolError, RenderError)) else 500


def openai_error(error: RendererError) -> dict[str, Any]:
    """The body of the response: ``{"error": {"message", "type", "param", "code"}}``; ``param`` names the message or tool."""
    index = getattr(error, "index", None)
    list_name = "tools" if isinstance(error, ToolError) else "messages"
    is_bad_request = http_status(error) == 400
    return {
        "error": {
            "message": str(error),
            "type": "invalid_request_error" if is_bad_request else "server_error",
            "param": None if not is_bad_request else list_name if index is None else f"{list_name}[{index}]",
            "code": type(error).__name__,
        }
    }


def with_rllm_names(error: RendererError) -> RendererError:
    """The error with rLLM's names for the options in its fix, where it is about which renderer serves the model."""
    if not isinstance(error, (NoBackendError, OptionError)):
        return error
    text = (
        f"{error}\n  in rLLM: --renderer-family and --renderer-name of the gateway, rllm.gateway.renderer_family and "
        "rllm.gateway.renderer_name of the configuration, renderer_name of the engine"
    )
    renamed = type(error)(text)
    renamed.__dict__.update(error.__dict__)
    return renamed
