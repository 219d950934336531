"""Annotations by people: the code that `annotate`, `import_ratings` and `review_links` share.

The readers (`tabular`, `label_studio`, `prodigy`) yield batches of Arrow tables with one of the schemas in `model`.
They pass anything that is not an annotation, with its position, to a callback `reject`. `answers` and `spans` translate
words in a file into a rubric's answers and into kinds of spans. The readers depend on neither runs nor Hydra.
"""
