#include "device/kernel_times.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace hyrecall::device {
namespace {

std::mutex g_mutex;
std::vector<KernelTotal> g_totals;

}  // namespace

void add_kernel_times(cuda::KernelTimes const& times) {
  std::lock_guard const lock(g_mutex);
  for (std::uint32_t i = 0; i < times.n; ++i) {
    cuda::KernelTime const& one = times.all[i];
    std::string name = one.name;
    if (one.width != 0) name += ", " + std::to_string(one.width) + " wide";
    auto at = std::find_if(g_totals.begin(), g_totals.end(),
                           [&](KernelTotal const& total) { return total.name == name; });
    if (at == g_totals.end()) at = g_totals.insert(at, {std::move(name), 0, 0.0});
    at->n_launches += 1;
    at->milliseconds += one.milliseconds;
  }
}

std::vector<KernelTotal> take_kernel_times() {
  std::lock_guard const lock(g_mutex);
  return std::exchange(g_totals, {});
}

}  // namespace hyrecall::device
