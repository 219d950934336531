"""Annotations by people: what `annotate`, `import_ratings` and `review_links` share.

The readers (`tabular`, `label_studio`, `prodigy`) yield Arrow tables of one of the schemas in `model`, in batches, and
pass anything that is not an annotation to a callback `reject`, with its position. `answers` and `spans` translate the
words in a file into a rubric's answers and into kinds of spans. The readers depend on neither runs nor Hydra.
"""
