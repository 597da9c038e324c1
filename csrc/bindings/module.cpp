// _core: nothing but the list of what crosses the border. Each kind of thing has a file of its own.
#include <pybind11/pybind11.h>

#include "bindings/bind.hpp"

PYBIND11_MODULE(_core, m) {
  m.doc() = "The native engine of hyrecall. Private: use the hyrecall package.";
  hyrecall::bindings::bind_errors(m);
}
