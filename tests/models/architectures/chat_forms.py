"""How publishers write the turns of a chat, in our own templates: facts about their special tokens and line ends."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.local_models import tiny


@dataclass(frozen=True)
class ChatForm:
    """The form of a chat.

    Attributes:
        specials: special tokens; the first one pads.
        end: the token that ends a turn of the model.
        user, model, system: the text before and after a turn.
        begin: the text before the first turn.
        start: the token that begins a text, where the form has one.
        trims: whether white space around a text is removed.
    """

    specials: tuple[str, ...]
    end: str
    user: tuple[str, str]
    model: tuple[str, str]
    system: tuple[str, str]
    begin: str = ""
    start: str | None = None
    trims: bool = False

    def template(self, picture: str = "") -> str:
        """Return the chat template, with `picture` in place of each picture."""
        trim = "|trim" if self.trims else ""
        parts = [f"{{%- set turns = {self._turns()} -%}}{{{{- {self.begin!r} -}}}}{{%- for message in messages -%}}"]
        parts.append("{%- set before, after = turns[message.role] -%}{{- before -}}")
        parts.append(f"{{%- if message.content is string -%}}{{{{- message.content{trim} -}}}}{{%- else -%}}")
        parts.append("{%- for piece in message.content -%}{%- if piece.type == 'image' -%}")
        parts.append(f"{{{{- {picture!r} -}}}}{{%- else -%}}{{{{- piece.text{trim} -}}}}{{%- endif -%}}")
        parts.append("{%- endfor -%}{%- endif -%}{{- after -}}{%- endfor -%}")
        parts.append(f"{{%- if add_generation_prompt -%}}{{{{- {self.model[0]!r} -}}}}{{%- endif -%}}")
        return "".join(parts)

    def _turns(self) -> str:
        return repr({"user": self.user, "assistant": self.model, "system": self.system})


def _tagged(
    before: str, after: str, end: str, *, names: tuple[str, str, str] = ("user", "assistant", "system"), **facts: Any
) -> ChatForm:
    """Return the form of turns `before.format(role)` … `after`."""
    user, model, system = ((before.format(name), after) for name in names)
    return ChatForm(end=end, user=user, model=model, system=system, **facts)


_HEADER = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
_COHERE = (
    "<|START_OF_TURN_TOKEN|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|USER_TOKEN|>",
    "<|CHATBOT_TOKEN|>",
    "<|SYSTEM_TOKEN|>",
)
_INSTRUCT = ("[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]")
FORMS = {
    "chatml": _tagged(
        "<|im_start|>{}\n",
        "<|im_end|>\n",
        "<|im_end|>",
        specials=("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    ),
    "llama3": _tagged(
        "<|start_header_id|>{}<|end_header_id|>\n\n",
        "<|eot_id|>",
        "<|eot_id|>",
        specials=("<|pad|>", "<|begin_of_text|>", *_HEADER),
        begin="<|begin_of_text|>",
        start="<|begin_of_text|>",
    ),
    "llama4": _tagged(
        "<|header_start|>{}<|header_end|>\n\n",
        "<|eot|>",
        "<|eot|>",
        specials=("<|pad|>", "<|begin_of_text|>", "<|eot|>", "<|header_start|>", "<|header_end|>"),
        begin="<|begin_of_text|>",
        start="<|begin_of_text|>",
    ),
    "gemma": _tagged(
        "<start_of_turn>{}\n",
        "<end_of_turn>\n",
        "<end_of_turn>",
        names=("user", "model", "system"),
        specials=("<pad>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
        begin="<bos>",
        start="<bos>",
        trims=True,
    ),
    "gemma4": _tagged(
        "<|turn>{}\n",
        "<turn|>\n",
        "<turn|>",
        names=("user", "model", "system"),
        specials=("<pad>", "<bos>", "<|turn>", "<turn|>"),
        begin="<bos>",
        start="<bos>",
        trims=True,
    ),
    "mistral": ChatForm(
        specials=("<pad>", "<s>", "</s>", *_INSTRUCT),
        end="</s>",
        user=("[INST]", "[/INST]"),
        model=("", "</s>"),
        system=("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
        begin="<s>",
        start="<s>",
    ),
    "vicuna": ChatForm(
        specials=("<pad>", "<s>", "</s>"),
        end="</s>",
        user=("USER: ", " "),
        model=("ASSISTANT:", "</s>"),
        system=("", "\n"),
        begin="<s>",
        start="<s>",
    ),
    "cohere": _tagged(
        "<|START_OF_TURN_TOKEN|><|{}_TOKEN|>",
        "<|END_OF_TURN_TOKEN|>",
        "<|END_OF_TURN_TOKEN|>",
        names=("USER", "CHATBOT", "SYSTEM"),
        specials=("<PAD>", "<BOS_TOKEN>", *_COHERE),
        begin="<BOS_TOKEN>",
        start="<BOS_TOKEN>",
    ),
    "glm": _tagged(
        "<|{}|>\n",
        "",
        "<|user|>",
        specials=("<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|system|>"),
        begin="[gMASK]<sop>",
    ),
    "phi": _tagged(
        "<|{}|>\n",
        "<|end|>\n",
        "<|end|>",
        specials=("<|endoftext|>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"),
    ),
    "granite": _tagged(
        "<|start_of_role|>{}<|end_of_role|>",
        "<|end_of_text|>\n",
        "<|end_of_text|>",
        specials=("<|pad|>", "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"),
    ),
    "deepseek": ChatForm(
        specials=("<pad>", "<bos>", "<eos>", "<|User|>", "<|Assistant|>"),
        end="<eos>",
        user=("<|User|>", ""),
        model=("<|Assistant|>", "<eos>"),
        system=("", "\n\n"),
        begin="<bos>",
        start="<bos>",
    ),
    "harmony": _tagged(
        "<|start|>{}<|message|>",
        "<|end|>",
        "<|end|>",
        names=("user", "assistant<|channel|>final", "developer"),
        specials=("<|endoftext|>", "<|start|>", "<|channel|>", "<|message|>", "<|end|>"),
    ),
    "exaone": _tagged(
        "[|{}|]\n",
        "[|endofturn|]\n",
        "[|endofturn|]",
        specials=("[PAD]", "[BOS]", "[|user|]", "[|assistant|]", "[|system|]", "[|endofturn|]"),
    ),
    "kimi": ChatForm(
        specials=("[PAD]", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "<|im_end|>"),
        end="<|im_end|>",
        user=("<|im_user|>user<|im_middle|>", "<|im_end|>"),
        model=("<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"),
        system=("<|im_system|>system<|im_middle|>", "<|im_end|>"),
    ),
    "minimax": _tagged(
        "]~b]{}\n",
        "[e~[\n",
        "[e~[",
        names=("user", "ai", "system"),
        specials=("]!p~[", "]~!b[", "]~b]", "[e~["),
        begin="]~!b[",
        start="]~!b[",
    ),
    "words": ChatForm(  # for models from before chats: no special tokens but the end of a text
        specials=("<pad>", "</s>"),
        end="</s>",
        user=("User: ", "\n"),
        model=("Assistant:", "</s>\n"),
        system=("", "\n"),
    ),
}


def write_tokenizer(
    folder: Path, form: ChatForm, *, picture: str = "", more: tuple[str, ...] = (), named: dict[str, str] | None = None
) -> Any:
    """Write a tokenizer with the chat template of `form` into `folder`; return it as AutoTokenizer loads it.

    Args:
        picture: what the template writes for a picture.
        more: further special tokens, those of pictures.
        named: special tokens by the attribute under which the processor looks them up.
    """
    specials = tuple(dict.fromkeys((*form.specials, *more, *(named or {}).values())))
    return tiny.write_tokenizer(
        folder,
        specials=specials,
        end=form.end,
        pad=form.specials[0],
        start=form.start,
        template=form.template(picture),
        named=named,
    )
