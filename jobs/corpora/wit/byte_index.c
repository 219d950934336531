/* Extension module _remine_byte_index: the index of a buffer of WIT in one pass.

   jobs/corpora/wit/row_index.py has the rules in Python, and calls this module.
   Most blocks of 64 bytes have no tab, line end or quote, or only quoted text. Which have is found at the width of the
   processor's registers, with AVX2 where it is present, else SSE2 (x86-64) or NEON (64-bit ARM), for GROUP blocks at a
   time. Only the others are looked at bit by bit, and of their fields only those up to the title. Processors without
   these instructions use NumPy. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#else
#error "neither SSE2 nor NEON: the byte scan uses NumPy"
#endif

/* Raise when the arguments or results of `scan` change: jobs may run next to an older installed module. */
#define INTERFACE 1

enum fault { STRAY_QUOTE = -1, WRONG_WIDTH = -2, LONE_RETURN = -3 }; /* values of row_index.py */
enum { QUOTED_LANGUAGE = -1, QUOTED_TITLE = -2, PICK_FIELDS = 4 };

struct index {
    int64_t rows, picked, end, copied, quoted;
};

enum { BLOCK = 64, GROUP = 64 }; /* bytes; blocks */

/* Bit i of the result describes byte i of the 64 bytes at p. equal: it is `c`. special: it is a tab, line feed,
   carriage return or quote. */
#if defined(__SSE2__)
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
/* The special byte with the low half of each byte, if there is one: a byte is special if it equals what it selects. */
__attribute__((target("avx2"))) static void specials_avx2(const uint8_t *p, int blocks, uint64_t *out) {
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, 0, '"', 0, 0, 0, 0, 0, 0, '\t', '\n', 0, 0, '\r', 0, 0));
    for (; blocks--; p += BLOCK) {
        __m256i low = _mm256_loadu_si256((const __m256i *)p), high = _mm256_loadu_si256((const __m256i *)(p + 32));
        *out++ = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, low), low))
                 | (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, high), high))
                       << 32;
    }
}
#else
/* Each byte of m is 0 or 255: one bit of each is kept, and pairwise sums gather eight of them in a byte. */
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
#endif

/* Sets out[i] to `special` of block i. */
static void specials(const uint8_t *p, int blocks, uint64_t *out) {
    for (; blocks--; p += BLOCK) *out++ = special(p);
}
static void (*find_specials)(const uint8_t *, int, uint64_t *) = specials;

/* Bit i is the parity of bits 0 to i. */
static inline uint64_t parities(uint64_t bits) {
    for (int k = 1; k < 64; k *= 2) bits ^= bits << k;
    return bits;
}

/* Fills `out` with the whole rows of data[0..have), or returns a fault. data[-1] must be readable.

   `picks` needs room for have / width + 1 rows, `titles` for have + 1 bytes. `wanted_size` < 0 picks every language. */
static int scan_rows(const uint8_t *data, int64_t have, int64_t width, int64_t language_column, int64_t title_column,
                     const uint8_t *wanted, int64_t wanted_size, int64_t *picks, uint8_t *titles, struct index *out) {
    const int64_t last_used = language_column > title_column ? language_column : title_column;
    int64_t rows = 0, tabs = 0, row = 0, field = 0, picked = 0, copied = 0, quoted = 0;
    int64_t language = 0, language_stop = 0, title = 0, title_stop = 0;
    uint64_t inside = 0; /* all ones where the block begins in a quoted field */
    uint64_t found[GROUP];
    uint8_t tail[BLOCK] = {0};
    for (int64_t block = 0; block < have; block += BLOCK) {
        int64_t number = block / BLOCK % GROUP, left = have / BLOCK - block / BLOCK;
        if (!number && left) find_specials(data + block, left < GROUP ? (int)left : GROUP, found);
        const uint8_t *p = data + block;
        if (!left) {
            memcpy(tail, p, have - block);
            p = tail;
        }
        uint64_t bits = left ? found[number] : special(tail);
        if (!bits) continue;
        uint64_t quotes = equal(p, '"'), hidden = inside;
        if (inside && !quotes) continue;
        if (quotes) {
            uint64_t tabulators = equal(p, '\t'), feeds = equal(p, '\n');
            hidden = parities(quotes) ^ inside;
            uint64_t opening = quotes & hidden, closing = quotes & ~hidden;
            uint8_t first = data[block - 1];
            uint64_t before = (tabulators | feeds | quotes) << 1 | (first == '\t' || first == '\n' || first == '"');
            if (opening & ~before) return STRAY_QUOTE;
            if (closing & ~(bits >> 1)) {
                /* what follows the last byte is in the next block, or has not been read yet */
                uint64_t last = have - block < BLOCK ? 1ull << (have - block - 1) : 1ull << 63;
                if (closing & ~(bits >> 1) & ~last) return STRAY_QUOTE;
                if (block + BLOCK < have) {
                    uint8_t after = data[block + BLOCK];
                    if (after != '\t' && after != '\n' && after != '\r' && after != '"') return STRAY_QUOTE;
                }
            }
            inside = (uint64_t)0 - (hidden >> 63);
        }
        for (uint64_t ends = bits & ~quotes & ~hidden; ends; ends &= ends - 1) {
            if (tabs > last_used) { /* the other fields of the row are only counted */
                uint64_t lines = ends & ~equal(p, '\t');
                if (!lines) {
                    tabs += __builtin_popcountll(ends);
                    break;
                }
                uint64_t fields = ends & ((lines & -lines) - 1);
                tabs += __builtin_popcountll(fields);
                ends ^= fields;
            }
            int64_t at = block + __builtin_ctzll(ends);
            uint8_t c = data[at];
            if (c == '\r') {
                if (at + 1 < have && data[at + 1] != '\n') return LONE_RETURN;
                continue;
            }
            if (tabs <= last_used) {
                int64_t stop = at - (c == '\n' && at > field && data[at - 1] == '\r');
                if (tabs == language_column) { language = field; language_stop = stop; }
                if (tabs == title_column) { title = field; title_stop = stop; }
                field = at + 1;
            }
            if (c == '\t') { tabs++; continue; }
            if (tabs != width - 1) return WRONG_WIDTH;
            int unknown = wanted_size >= 0 && data[language] == '"';
            if (unknown || wanted_size < 0 || (language_stop - language == wanted_size
                                               && !memcmp(data + language, wanted, wanted_size))) {
                int64_t *pick = picks + PICK_FIELDS * picked++;
                pick[0] = row;
                pick[1] = at;
                pick[2] = unknown ? QUOTED_LANGUAGE : data[title] == '"' ? QUOTED_TITLE : title;
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
    *out = (struct index){rows, picked, row, copied, quoted};
    return 0;
}

static PyObject *scan(PyObject *self, PyObject *args) {
    Py_buffer data, wanted, picks, titles;
    Py_ssize_t have, width, language_column, title_column;
    if (!PyArg_ParseTuple(args, "y*nnnnz*w*w*", &data, &have, &width, &language_column, &title_column, &wanted, &picks,
                          &titles))
        return NULL;
    PyObject *result = NULL;
    /* data has a line feed before its first row */
    if (have < 0 || have + 1 > data.len || width < 1 || language_column < 0 || language_column >= width
        || title_column < 0 || title_column >= width
        || picks.len < (have / width + 1) * PICK_FIELDS * (Py_ssize_t)sizeof(int64_t) || titles.len < have + 1) {
        PyErr_SetString(PyExc_ValueError, "scan: a column beyond the width, or a buffer that is too small");
    } else {
        struct index out;
        int fault;
        Py_BEGIN_ALLOW_THREADS
        fault = scan_rows((const uint8_t *)data.buf + 1, have, width, language_column, title_column, wanted.buf,
                          wanted.buf ? wanted.len : -1, picks.buf, titles.buf, &out);
        Py_END_ALLOW_THREADS
        result = fault ? PyLong_FromLong(fault)
                       : Py_BuildValue("(LLLLL)", (long long)out.rows, (long long)out.picked, (long long)out.end,
                                       (long long)out.copied, (long long)out.quoted);
    }
    PyBuffer_Release(&data);
    if (wanted.obj) PyBuffer_Release(&wanted);
    PyBuffer_Release(&picks);
    PyBuffer_Release(&titles);
    return result;
}

PyDoc_STRVAR(scan_doc, "scan(data, have, width, language_column, title_column, wanted, picks, titles, /)\n--\n\n"
                       "(rows, picks, end of the last row, bytes of titles, quoted picks), or a negative fault.\n\n"
                       "The rows are data[1:1 + have]; data[0] is a line feed. wanted: the language, or None for all.\n"
                       "picks: int64[have / width + 1, 4] and titles: uint8[have + 1] are overwritten.");

static PyMethodDef methods[] = {{"scan", scan, METH_VARARGS, scan_doc}, {NULL, NULL, 0, NULL}};

static int prepare(PyObject *module) {
#if defined(__SSE2__)
    if (__builtin_cpu_supports("avx2")) find_specials = specials_avx2;
#endif
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_remine_byte_index", .m_methods = methods,
                                    .m_slots = slots};

PyMODINIT_FUNC PyInit__remine_byte_index(void) { return PyModuleDef_Init(&module); }
