/* colonnade.kernels._native: the C form of the kernels. What each does is described in plain/ and _native.pyi. */
#include "native.h"

static int add_functions(PyObject *module)
{
    PyMethodDef *families[] = {
        shuffle_functions, checksum_functions, compare_functions, mask_functions, take_functions,
        total_functions, group_functions, string_functions, heap_functions, packing_functions,
        sort_functions, bitmap_functions, coded_functions, hash_functions, bitshuffle_functions,
        blosclz_functions, lz4_functions, block_functions, deflate_functions, chunk_functions,
        cell_functions, lzf_functions,
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (PyModule_AddFunctions(module, families[i]) < 0)
            return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_functions}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The C form of the kernels.", 0, NULL, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
