"""Build of the one C extension module; everything else about the package is in pyproject.toml.

It is optional: without a C compiler the byte scan of `mine` uses NumPy. Its name is outside `jobs`, so that a job
submitted with --working-dir imports the module that is installed on the workers. It uses only the stable interface of
Python 3.11, so that later versions load the same file, also one that was copied (deploy/kubernetes).
"""

from setuptools import Extension, setup

SCAN = Extension(
    "_remine_byte_index",
    ["jobs/corpora/wit/byte_index.c"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    optional=True,
)

setup(ext_modules=[SCAN])
