"""Small checkpoints of the architectures of transformers, and remine's jobs on them against plain transformers.

`python -m tests.models.architectures` runs all of them and writes docs/models.md; names of architectures as arguments
restrict it to these and print their rows.

- `chat_forms`: how publishers write the turns of a chat.
- `small_configs`: configs with small sizes.
- `text_models`, `picture_models` (with `models_like_llava`, `models_of_patches` and `models_of_tiles`): writers of the
  checkpoints, and the architectures without one, with the reason.
- `plain`: prompts and likelihoods by transformers alone.
- `comparison`: the jobs on a checkpoint, and their largest differences from `plain`.
- `page`: the table of docs/models.md.
"""
