"""People's annotations: readers of what annotation tools and spreadsheets give, writers of what they take.

Readers (`tabular`, `label_studio`, `prodigy`) give Arrow tables of one of the schemas in `model`, in batches, and
send what is no annotation to a `reject` callback with its position. `answers` and `spans` say what the words of
people stand for. Nothing here knows of runs or of Hydra.
"""
