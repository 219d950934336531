"""Annotations by people: the code that `annotate`, `import_ratings` and `link review` share.

`study` makes a form and a plan from tables (`shown_items`, `assignment`), and the files of an annotation tool. The
readers (`tabular`, `label_studio`, `prodigy`, `century_annotations`) yield batches of Arrow tables with one of the
schemas in `batch_schemas`. They pass anything that is not an annotation, with its position, to a callback `reject`.
`questionnaire` and `span_labels` translate words in a file into a rubric's answers and into kinds of spans.
"""
