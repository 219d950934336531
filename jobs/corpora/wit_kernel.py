"""The loop of `wit_scan` over the bytes of a buffer, compiled where a C compiler happens to be; never needed.

It finds in one pass what NumPy needs several for. The source is below; it is compiled once a user, into the folder of
the user's cache, and any failure means: do without. `REMINE_COMPILE=0` means so from the start.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from actors.local_models import cache_folder

COMPILERS = ("cc", "gcc", "clang")
COMPILE_SECONDS = 60
STRAY_QUOTE, WRONG_WIDTH, LONE_RETURN = -1, -2, -3
QUOTED_TITLE, QUOTED_LANGUAGE = -2, -1
Kernel = Callable[[int, int, int, int, int, bytes, int, int, int], int]  # `scan` of the source; integers are addresses

SOURCE = r"""
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Bit i: byte i of the 64 is a tab, a line feed, a carriage return or a quote. */
static inline uint64_t special(const uint8_t *p) {
    uint64_t bits = 0;
#ifdef __SSE2__
    for (int k = 0; k < 4; k++) {
        __m128i v = _mm_loadu_si128((const __m128i *)(p + 16 * k));
        __m128i m = _mm_or_si128(
            _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\t')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\n'))),
            _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\r')), _mm_cmpeq_epi8(v, _mm_set1_epi8('"'))));
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(m) << (16 * k);
    }
#else
    for (int k = 0; k < 64; k++)
        bits |= (uint64_t)((p[k] == '\t') | (p[k] == '\n') | (p[k] == '\r') | (p[k] == '"')) << k;
#endif
    return bits;
}

/* What the whole rows are, or what is wrong: the rules are those of wit_scan (_check_quotes, _check_returns,
   _check_widths). data[-1] is readable. `wanted` are the bytes of the language, or `wanted_size` is negative for every
   one. `out`: number of rows, number of picks, byte behind the last row. Each pick is a row of the language: where it
   begins, its line end, where its title begins and stops; a title's begin of -2: the title is quoted; -1: so is the
   language, and whether it is the wanted one is not known. */
int64_t scan(const uint8_t *data, int64_t have, int64_t width, int64_t at_language, int64_t at_title,
             const uint8_t *wanted, int64_t wanted_size, int64_t *picks, int64_t *out) {
    int64_t rows = 0, tabs = 0, row = 0, field = 0, picked = 0;
    int64_t language = 0, language_stop = 0, title = 0, title_stop = 0;
    int inside = 0;
    for (int64_t block = 0; block < have; block += 64) {
        uint64_t bits = 0;
        if (have - block >= 64)
            bits = special(data + block);
        else
            for (int64_t k = 0; k < have - block; k++) {
                uint8_t c = data[block + k];
                bits |= (uint64_t)((c == '\t') | (c == '\n') | (c == '\r') | (c == '"')) << k;
            }
        for (; bits; bits &= bits - 1) {
            int64_t at = block + __builtin_ctzll(bits);
            uint8_t c = data[at];
            if (c == '"') {
                if (!inside) {
                    uint8_t before = data[at - 1];
                    if (before != '\t' && before != '\n' && before != '"') return -1;
                } else if (at + 1 < have) {
                    uint8_t after = data[at + 1];
                    if (after != '\t' && after != '\n' && after != '\r' && after != '"') return -1;
                }
                inside = !inside;
                continue;
            }
            if (inside) continue;
            if (c == '\r') {
                if (at + 1 < have && data[at + 1] != '\n') return -3;
                continue;
            }
            int64_t stop = at - (c == '\n' && at > field && data[at - 1] == '\r');
            if (tabs == at_language) { language = field; language_stop = stop; }
            if (tabs == at_title) { title = field; title_stop = stop; }
            field = at + 1;
            if (c == '\t') { tabs++; continue; }
            if (tabs != width - 1) return -2;
            int unknown = wanted_size >= 0 && data[language] == '"';
            if (unknown || wanted_size < 0 || (language_stop - language == wanted_size
                                               && !memcmp(data + language, wanted, wanted_size))) {
                int64_t *pick = picks + 4 * picked++;
                pick[0] = row;
                pick[1] = at;
                pick[2] = unknown ? -1 : data[title] == '"' ? -2 : title;
                pick[3] = title_stop;
            }
            rows++;
            row = at + 1;
            tabs = 0;
        }
    }
    out[0] = rows;
    out[1] = picked;
    out[2] = row;
    return 0;
}
"""


@functools.cache
def kernel() -> Kernel | None:
    """The compiled loop, None where there is none."""
    if os.environ.get("REMINE_COMPILE") == "0":
        return None
    try:
        function = ctypes.CDLL(str(_library())).scan
    except (OSError, AttributeError, RuntimeError, subprocess.SubprocessError):  # RuntimeError: a user without a home
        return None
    number, address = ctypes.c_int64, ctypes.c_void_p
    function.argtypes = [address, number, number, number, number, ctypes.c_char_p, number, address, address]
    function.restype = ctypes.c_int64
    return function


def _library() -> Path:
    """The shared library, compiled unless this user has done so for this source and machine."""
    what = "\n".join([SOURCE, sys.platform, platform.machine()])
    path = cache_folder() / f"wit-kernel-{hashlib.sha256(what.encode()).hexdigest()[:16]}.so"
    if path.exists():
        return path
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        source, made = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
        source.write_text(SOURCE, encoding="utf-8")
        command = [compiler, "-O3", "-shared", "-fPIC", "-o", str(made), str(source)]
        subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_SECONDS)
        made.rename(path)  # whole or not at all, for workers that start at once
    return path
