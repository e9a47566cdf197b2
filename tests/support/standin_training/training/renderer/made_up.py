"""A toy model on Qwen's vocabulary: the role, a colon, the text."""

import tinker
from tinker_cookbook.renderers import register_renderer
from tinker_cookbook.renderers.base import Message, RenderContext, RenderedMessage, Renderer, parse_response_for_stop_token


class MadeUpRenderer(Renderer):
    label = "made up"

    def _chunk(self, text):
        return tinker.types.EncodedTextChunk(tokens=self.tokenizer.encode(text, add_special_tokens=False))

    def render_message(self, message: Message, ctx: RenderContext) -> RenderedMessage:
        text = message["content"]
        text = text if isinstance(text, str) else "".join(part.get("text", "") for part in text)
        header = self._chunk(f"<|im_start|>{self.label} {message['role']}: ")
        return RenderedMessage(header=header, output=[self._chunk(f"{text}<|im_end|>")])

    def _get_generation_suffix(self, role, ctx):
        return self.tokenizer.encode(f"<|im_start|>{self.label} {role}: ", add_special_tokens=False)

    def get_stop_sequences(self):
        return self.tokenizer.encode("<|im_end|>", add_special_tokens=False)

    def parse_response(self, response):
        return parse_response_for_stop_token(response, self.tokenizer, self.get_stop_sequences()[0])


register_renderer("made_up", lambda tokenizer, image_processor=None: MadeUpRenderer(tokenizer))
register_renderer("deepseek_v4", lambda tokenizer, image_processor=None: MadeUpRenderer(tokenizer))
