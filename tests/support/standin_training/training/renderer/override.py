"""A renderer under a name that tinker_cookbook has itself."""

from tinker_cookbook.renderers import register_renderer

from training.renderer.made_up import MadeUpRenderer


class OtherQwen3(MadeUpRenderer):
    label = "other"


register_renderer("qwen3", lambda tokenizer, image_processor=None: OtherQwen3(tokenizer))
