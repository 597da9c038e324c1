// The registration functions of _core, one a file.
#pragma once

#include <pybind11/pybind11.h>

namespace hyrecall::bindings {

void bind_errors(pybind11::module_& m);

}  // namespace hyrecall::bindings
