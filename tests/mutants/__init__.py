"""Mutation testing: which small changes of the code no test notices.

mutmut runs the whole suite first and forks a process that has imported torch; cosmic-ray has one command for all
mutants. This tool runs, for each of a few drawn mutants, only the tests that import its module, those without Ray and
models first.
"""
