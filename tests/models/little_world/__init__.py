"""Studies about the little world: inputs of the papers' pipelines, and the tables that their reports should contain.

`studies` writes the inputs, and there is one module of tables per paper, computed from the truth alone. They share no
code with `jobs.metrics` and `jobs.papers`, whose tables they check: each number is counted or averaged again here, from
the scenes and the answers of invented people.
"""
