"""Settings of the encoder of a stage and of its device."""

from dataclasses import dataclass

from actors.settings import Settings


@dataclass
class EncoderSettings(Settings):
    """Settings of the encoder that embeds pictures and texts.

    `actors.encoders.facts.encoder_facts` finds encoders and checks names.
    """

    # open_clip name, hf-hub:org/name, local-dir:FOLDER, s3://…, local:NAME, or transformers: before a name, FOLDER, s3://…
    checkpoint: str
    # rarely: with an open_clip name: a tag, tag@COMMIT or a .safetensors file; with transformers: a revision
    pretrained: str | None = None
    device: str = "auto"  # rarely: auto: a GPU if there is one; else cpu, cuda, cuda:1
    dtype: str = "auto"  # rarely: bfloat16 on a GPU, float32 on a CPU (bfloat16 pays on CPUs that have avx512_bf16)
