"""Build of the one C extension module; everything else about the package is in pyproject.toml.

It is optional: without a C compiler the byte scan of `mine` uses NumPy. Its name is outside `jobs`, so that a job
submitted with --working-dir imports the module that is installed on the workers.
"""

from setuptools import Extension, setup

setup(ext_modules=[Extension("_remine_byte_index", ["jobs/corpora/wit/byte_index.c"], optional=True)])
