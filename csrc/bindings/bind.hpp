// Declares the registration functions of _core, one per file.
#pragma once

#include <pybind11/pybind11.h>

namespace hyrecall::bindings {

void bind_analyzer(pybind11::module_& m);
void bind_arithmetic(pybind11::module_& m);
void bind_arms(pybind11::module_& m);
void bind_columns(pybind11::module_& m);
void bind_device(pybind11::module_& m);
void bind_errors(pybind11::module_& m);
void bind_files(pybind11::module_& m);
void bind_filter(pybind11::module_& m);
void bind_frozen(pybind11::module_& m);
void bind_graph(pybind11::module_& m);
void bind_guest(pybind11::module_& m);
void bind_matches(pybind11::module_& m);
void bind_recall(pybind11::module_& m);
void bind_request(pybind11::module_& m);
void bind_rows(pybind11::module_& m);
void bind_scopes(pybind11::module_& m);
void bind_segment(pybind11::module_& m);
void bind_shaping(pybind11::module_& m);
void bind_tensors(pybind11::module_& m);

}  // namespace hyrecall::bindings
