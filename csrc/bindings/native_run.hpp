// The run of a native call: Python's lock is released, arithmetic is ours, and Ctrl-C is heard.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/gil.hpp"
#include "core/fp_env.hpp"
#include "core/interrupt.hpp"

namespace hyrecall::bindings {

// Runs Python's signal handlers; throws what they raise. Only Python's main thread runs any, so
// that no other thread has to wait for the lock.
inline void check_signals() {
  call_python([] {
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  });
}

// Set when the module is loaded: a static of a function would wait for itself where its maker gives
// the lock to another thread.
inline unsigned long main_thread = 0;

// In a forked child too, where another thread may be the main one.
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

// Made while the lock is held.
class NativeRun {
 public:
  NativeRun() : interrupt_(PyThread_get_thread_ident() == main_thread ? &check_signals : nullptr) {}

 private:
  InterruptGuard const interrupt_;
  WithoutGil const nogil_;
  FpEnvGuard const fp_;
};

}  // namespace hyrecall::bindings
