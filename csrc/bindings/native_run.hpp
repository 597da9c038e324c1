// Runs a native call without the GIL, with default float arithmetic, and interruptible by Ctrl-C.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/gil.hpp"
#include "core/fp_env.hpp"
#include "core/interrupt.hpp"

namespace hyrecall::bindings {

// Runs Python's signal handlers and throws what they raise. Only the main thread does this, so no
// other thread waits for the GIL.
inline void check_signals() {
  call_python([] {
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  });
}

// Set when the module is loaded: a static of a function could deadlock, if its initializer releases
// the GIL to another thread.
inline unsigned long main_thread = 0;

// Also in a forked child, where another thread may be the main one.
inline void remember_main_thread() {
  auto const remember = [] {
    main_thread = pybind11::module_::import("threading")
                      .attr("main_thread")()
                      .attr("ident")
                      .cast<unsigned long>();
  };
  remember();  // threading learns of forks before this does, since it is loaded now
  pybind11::module_::import("os").attr("register_at_fork")(pybind11::arg("after_in_child") =
                                                               pybind11::cpp_function(remember));
}

// Constructed while the GIL is held.
class NativeRun {
 public:
  NativeRun() : interrupt_(PyThread_get_thread_ident() == main_thread ? &check_signals : nullptr) {}

 private:
  InterruptGuard const interrupt_;
  WithoutGil const nogil_;
  FpEnvGuard const fp_;
};

}  // namespace hyrecall::bindings
