"""The index of a buffer of WIT in C, compiled where a compiler happens to be; never needed.

It finds in one pass what `wit_numpy` needs several for. The source is below; it is compiled once a user, into the
folder of the user's cache, and any failure means: do without. `REMINE_COMPILE=0` means so from the start.
It looks at 64 bytes at a time: with AVX2 or SSE2 on x86-64, NEON on 64-bit ARM, in words of eight bytes elsewhere.
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

import numpy as np

from actors.local_models import cache_folder
from jobs.corpora.wit.index_numpy import Bytes, Index

COMPILERS = ("cc", "gcc", "clang")
COMPILE_SECONDS = 60
Kernel = Callable[[int, int, int, int, int, bytes, int, int, int, int], int]  # `scan` of the source; with addresses

SOURCE = r"""
#include <stdint.h>
#include <string.h>
#ifdef WORDS /* for tests: as where there are no vectors */
#undef __AVX2__
#undef __SSE2__
#undef __aarch64__
#endif
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#elif !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the words below are little-endian"
#endif

/* Of the 64 bytes at p, bit i for byte i. equal: it is `c`. special: it is a tab, line feed, carriage return, quote. */
#if defined(__AVX2__)
static inline uint64_t equal(const uint8_t *p, char c) {
    uint64_t bits = 0;
    for (int k = 0; k < 2; k++)
        bits |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(
            _mm256_loadu_si256((const __m256i *)(p + 32 * k)), _mm256_set1_epi8(c))) << (32 * k);
    return bits;
}
static inline uint64_t special(const uint8_t *p) {
    uint64_t bits = 0;
    __m256i tab = _mm256_set1_epi8('\t'), lf = _mm256_set1_epi8('\n');
    __m256i cr = _mm256_set1_epi8('\r'), quote = _mm256_set1_epi8('"');
    for (int k = 0; k < 2; k++) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(p + 32 * k));
        __m256i m = _mm256_or_si256(_mm256_or_si256(_mm256_cmpeq_epi8(v, tab), _mm256_cmpeq_epi8(v, lf)),
                                    _mm256_or_si256(_mm256_cmpeq_epi8(v, cr), _mm256_cmpeq_epi8(v, quote)));
        bits |= (uint64_t)(uint32_t)_mm256_movemask_epi8(m) << (32 * k);
    }
    return bits;
}
#elif defined(__SSE2__)
static inline uint64_t equal(const uint8_t *p, char c) {
    uint64_t bits = 0;
    for (int k = 0; k < 4; k++)
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(
            _mm_loadu_si128((const __m128i *)(p + 16 * k)), _mm_set1_epi8(c))) << (16 * k);
    return bits;
}
static inline uint64_t special(const uint8_t *p) {
    uint64_t bits = 0;
    for (int k = 0; k < 4; k++) {
        __m128i v = _mm_loadu_si128((const __m128i *)(p + 16 * k));
        __m128i m = _mm_or_si128(
            _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\t')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\n'))),
            _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\r')), _mm_cmpeq_epi8(v, _mm_set1_epi8('"'))));
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(m) << (16 * k);
    }
    return bits;
}
#elif defined(__aarch64__)
/* Each byte of m is 0 or 255: one bit of each is left, and sums of neighbours bring eight of them into a byte. */
static inline uint64_t gathered(const uint8x16_t m[4]) {
    const uint8x16_t bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t low = vpaddq_u8(vandq_u8(m[0], bit), vandq_u8(m[1], bit));
    uint8x16_t high = vpaddq_u8(vandq_u8(m[2], bit), vandq_u8(m[3], bit));
    uint8x16_t all = vpaddq_u8(low, high);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(all, all)), 0);
}
static inline uint64_t equal(const uint8_t *p, char c) {
    uint8x16_t m[4];
    for (int k = 0; k < 4; k++) m[k] = vceqq_u8(vld1q_u8(p + 16 * k), vdupq_n_u8((uint8_t)c));
    return gathered(m);
}
static inline uint64_t special(const uint8_t *p) {
    uint8x16_t m[4];
    for (int k = 0; k < 4; k++) {
        uint8x16_t v = vld1q_u8(p + 16 * k);
        m[k] = vorrq_u8(vorrq_u8(vceqq_u8(v, vdupq_n_u8('\t')), vceqq_u8(v, vdupq_n_u8('\n'))),
                        vorrq_u8(vceqq_u8(v, vdupq_n_u8('\r')), vceqq_u8(v, vdupq_n_u8('"'))));
    }
    return gathered(m);
}
#else
#define EACH 0x0101010101010101ULL
/* The high bit of each byte of the word is clear where it is `c`, and only there; the others say nothing. */
static inline uint64_t unlike(uint64_t word, char c) {
    uint64_t x = word ^ EACH * (uint8_t)c;
    return ((x & EACH * 127) + EACH * 127) | x;
}
/* The high bits of a word's bytes as one byte. */
static inline uint64_t gathered(uint64_t word) {
    return (((word >> 7) & EACH) * 0x0102040810204080ULL) >> 56;
}
static inline uint64_t equal(const uint8_t *p, char c) {
    uint64_t bits = 0, word;
    for (int k = 0; k < 8; k++) {
        memcpy(&word, p + 8 * k, 8);
        bits |= gathered(~unlike(word, c)) << (8 * k);
    }
    return bits;
}
static inline uint64_t special(const uint8_t *p) {
    uint64_t bits = 0, word;
    for (int k = 0; k < 8; k++) {
        memcpy(&word, p + 8 * k, 8);
        word = unlike(word, '\t') & unlike(word, '\n') & unlike(word, '\r') & unlike(word, '"');
        bits |= gathered(~word) << (8 * k);
    }
    return bits;
}
#endif

/* What the whole rows are, or what is wrong: the rules are those of wit_numpy. data[-1] is readable. `wanted` are the
   bytes of the language, or `wanted_size` is negative for every one. `out`: rows, picks, byte behind the last row,
   bytes of `titles`, picks whose title is not among them. Each pick is a row of the language, as in wit_numpy.Index. */
int64_t scan(const uint8_t *data, int64_t have, int64_t width, int64_t at_language, int64_t at_title,
             const uint8_t *wanted, int64_t wanted_size, int64_t *picks, uint8_t *titles, int64_t *out) {
    const int64_t later = at_language > at_title ? at_language : at_title;
    int64_t rows = 0, tabs = 0, row = 0, field = 0, picked = 0, copied = 0, quoted = 0;
    int64_t language = 0, language_stop = 0, title = 0, title_stop = 0;
    int inside = 0;
    for (int64_t block = 0; block < have; block += 64) {
        uint64_t bits = 0;
        if (have - block >= 64) {
            bits = special(data + block);
            if (!bits) continue;
            /* What most blocks are: text of a quoted field, or columns behind those that matter. */
            if (inside) {
                if (!(bits & equal(data + block, '"'))) continue;
            } else if (tabs > later && bits == equal(data + block, '\t')) {
                tabs += __builtin_popcountll(bits);
                continue;
            }
        } else
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
            if (tabs <= later) {
                int64_t stop = at - (c == '\n' && at > field && data[at - 1] == '\r');
                if (tabs == at_language) { language = field; language_stop = stop; }
                if (tabs == at_title) { title = field; title_stop = stop; }
                field = at + 1;
            }
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
                if (pick[2] < 0) quoted++;
                else {
                    memcpy(titles + copied, data + title, title_stop - title);
                    copied += title_stop - title;
                    titles[copied++] = 0;
                }
            }
            rows++;
            row = field = at + 1;
            tabs = 0;
        }
    }
    out[0] = rows;
    out[1] = picked;
    out[2] = row;
    out[3] = copied;
    out[4] = quoted;
    return 0;
}
"""


class CompiledIndex:
    """`wit_numpy.NumpyIndex` by the compiled loop; the same buffer, the same answers."""

    def __init__(self, kernel: Kernel, around: Bytes) -> None:
        self._kernel = kernel
        self._address = around.ctypes.data + 1
        self._titles = np.empty(len(around) + 1, np.uint8)  # a title and its NUL take no more than its row
        self._view = self._titles.data
        self._picks = np.empty((0, 4), np.int64)
        self._out = np.zeros(5, np.int64)
        self._capacity = len(around)
        self._addresses = (self._titles.ctypes.data, self._out.ctypes.data)

    def __call__(self, have: int, width: int, at_language: int, at_title: int, wanted: bytes | None) -> Index | int:
        """The index of the first `have` bytes, which begin a row, or what is wrong with them."""
        if not len(self._picks):
            # a row has a byte a column at least; memory that is never written to is never taken
            self._picks = np.empty((self._capacity // width + 1, 4), np.int64)
        size = -1 if wanted is None else len(wanted)
        titles, out = self._addresses
        fault = self._kernel(
            self._address, have, width, at_language, at_title, wanted or b"", size, self._picks.ctypes.data, titles, out
        )
        if fault:
            return fault
        rows, picked, end, copied, quoted = self._out.tolist()
        return Index(rows, end, self._picks[:picked], None if quoted else self._view[:copied])


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
    function.argtypes = [address, number, number, number, number, ctypes.c_char_p, number, address, address, address]
    function.restype = ctypes.c_int64
    return function


def _library() -> Path:
    """The shared library, compiled unless this user has done so for this source and machine."""
    flags = _flags()
    what = "\n".join([SOURCE, sys.platform, platform.machine(), *flags])
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
        command = [compiler, *flags, "-shared", "-fPIC", "-o", str(made), str(source)]
        subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_SECONDS)
        made.rename(path)  # whole or not at all, for workers that start at once
    return path


def _flags() -> list[str]:
    """How to compile for this processor: a folder that several machines share gets a library for each kind."""
    cpuinfo = Path("/proc/cpuinfo")
    wide = platform.machine() == "x86_64" and cpuinfo.exists() and " avx2 " in cpuinfo.read_text()
    return ["-O3", "-mavx2"] if wide else ["-O3"]
