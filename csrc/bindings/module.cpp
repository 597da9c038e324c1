// Defines the module _core: calls the registration function of each bindings file.
#include <pybind11/pybind11.h>

#include "bindings/bind.hpp"
#include "bindings/native_run.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/settings.hpp"

PYBIND11_MODULE(_core, m) {
  m.doc() = "The native engine of hyrecall. Private: use the hyrecall package.";
  using namespace hyrecall::bindings;
  remember_main_thread();
  hyrecall::cpu::force_isa(hyrecall::read_isa());
  bind_errors(m);
  bind_arithmetic(m);
  bind_analyzer(m);
  bind_filter(m);
  bind_files(m);  // columns take checks
  bind_columns(m);
  bind_guest(m);  // a snapshot takes some
  bind_scopes(m);
  bind_segment(m);
  bind_request(m);
  bind_recall(m);
  bind_matches(m);
  bind_shaping(m);
  bind_frozen(m);  // it takes the features of a Linear
  bind_rows(m);
  bind_arms(m);
  bind_graph(m);  // into arms
  bind_device(m);
  bind_tensors(m);  // into device
}
