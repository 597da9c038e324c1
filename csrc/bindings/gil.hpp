// Releases and takes the GIL without an abort while the interpreter finalizes.
//
// CPython before 3.14 ends a thread that asks for the GIL during finalization: it unwinds the
// thread's stack, and a destructor, a noexcept function or a `catch (...)` on the way aborts the
// process. So each call here that may take the GIL catches the unwinding and never returns; the
// thread sleeps until the process ends.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>

namespace hyrecall::bindings {

[[noreturn]] inline void wait_for_exit() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Releases the GIL during its lifetime.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  WithoutGil(WithoutGil const&) = delete;
  WithoutGil& operator=(WithoutGil const&) = delete;
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      wait_for_exit();
    }
  }

 private:
  PyThreadState* state_;
};

class WithGil {
 public:
  WithGil() {
    try {
      state_ = PyGILState_Ensure();
    } catch (...) {
      wait_for_exit();
    }
  }
  WithGil(WithGil const&) = delete;
  WithGil& operator=(WithGil const&) = delete;
  ~WithGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

// Calls a function that runs Python, on any thread. Python may switch threads during the call, so
// the unwinding may also begin inside it.
template <typename F>
auto call_python(F const& call) {
  WithGil const gil;
#if defined(__GLIBCXX__)
  try {
    return call();
  } catch (abi::__forced_unwind const&) {
    wait_for_exit();
  }
#else
  return call();  // macOS ends a thread without unwinding its stack
#endif
}

}  // namespace hyrecall::bindings
