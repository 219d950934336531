/* Extension module _remine_byte_index: the index of a buffer of WIT in one pass.

   jobs/corpora/wit/row_index.py has the rules in Python, and calls this module.
   64 bytes are compared at a time, with SSE2 (x86-64) or NEON (64-bit ARM). Other processors use NumPy. AVX2 was no
   faster than SSE2: the loop over the special bytes dominates. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
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

/* Fills `out` with the whole rows of data[0..have), or returns a fault. data[-1] must be readable.

   `picks` needs room for have / width + 1 rows, `titles` for have + 1 bytes. `wanted_size` < 0 picks every language. */
static int scan_rows(const uint8_t *data, int64_t have, int64_t width, int64_t language_column, int64_t title_column,
                     const uint8_t *wanted, int64_t wanted_size, int64_t *picks, uint8_t *titles, struct index *out) {
    const int64_t last_used = language_column > title_column ? language_column : title_column;
    int64_t rows = 0, tabs = 0, row = 0, field = 0, picked = 0, copied = 0, quoted = 0;
    int64_t language = 0, language_stop = 0, title = 0, title_stop = 0;
    int inside = 0;
    for (int64_t block = 0; block < have; block += 64) {
        uint64_t bits = 0;
        if (have - block >= 64) {
            bits = special(data + block);
            if (!bits) continue;
            /* Most blocks are text of a quoted field, or columns behind the used ones. */
            if (inside) {
                if (!(bits & equal(data + block, '"'))) continue;
            } else if (tabs > last_used && bits == equal(data + block, '\t')) {
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
                    if (before != '\t' && before != '\n' && before != '"') return STRAY_QUOTE;
                } else if (at + 1 < have) {
                    uint8_t after = data[at + 1];
                    if (after != '\t' && after != '\n' && after != '\r' && after != '"') return STRAY_QUOTE;
                }
                inside = !inside;
                continue;
            }
            if (inside) continue;
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

static int add_constants(PyObject *module) { return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_constants}, {0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_remine_byte_index", .m_methods = methods,
                                    .m_slots = slots};

PyMODINIT_FUNC PyInit__remine_byte_index(void) { return PyModuleDef_Init(&module); }
