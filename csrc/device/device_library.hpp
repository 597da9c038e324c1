// libhyrecall_cuda.so as this folder's other files use it; its users outside see device.hpp,
// dense_device.hpp and device_segment.hpp.
#pragma once

#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/fork_mutex.hpp"
#include "device/device.hpp"
#include "kernels/shared/abi.hpp"

namespace hyrecall::device {

// What make(folder) gives, kept.
template <typename T, typename Make>
T const& of_folder(std::string const& folder, Make&& make) {
  static auto* const known = new std::map<std::string, T>;  // references outlive static objects
  {
    std::lock_guard const lock(fork_mutex<T>());
    auto const found = known->find(folder);
    if (found != known->end()) return found->second;
  }
  T made = make(folder);  // outside: it takes long, and twice is once
  std::lock_guard const lock(fork_mutex<T>());
  return known->emplace(folder, std::move(made)).first->second;
}

// Throws kDeviceUnavailable, naming cuda:N, where there is no such library.
cuda::Api const& require_library(std::string const& folder, int ordinal);

// Throws what a failed call says: kDeviceMemory, kInternal or kDeviceUnavailable, naming cuda:N.
void check(cuda::Status const& status, int ordinal);

// Adds to what take_kernel_times() gives. Any number of threads at once.
void add_kernel_times(cuda::KernelTimes const& times);

// What make(api, place for the handle) makes.
template <typename Make>
Handle make_handle(std::string const& folder, int ordinal, Make&& make) {
  cuda::Api const& api = require_library(folder, ordinal);
  cuda::Object* made = nullptr;
  check(make(api, &made), ordinal);
  return {made, api.destroy};
}

// Calls a function of the library that hands its results to `take`, whose exception passes around
// the library.
template <typename Params, typename Take>
void call_taking(cuda::Api const& api, int ordinal,
                 cuda::Status (*cuda::Api::*function)(Params const* params), Params& params,
                 Take const& take) {
  struct Taker {
    Take const& take;
    std::exception_ptr error;
  } taker{take, {}};
  params.context = &taker;
  params.take = [](void* context, auto const& results) {
    auto& own = *static_cast<Taker*>(context);
    try {
      own.take(results);
    } catch (...) {
      own.error = std::current_exception();
    }
  };
  check((api.*function)(&params), ordinal);
  if (taker.error) std::rethrow_exception(taker.error);
}

}  // namespace hyrecall::device
