// The way to libhyrecall_cuda.so: loaded on first use, so that importing needs neither it nor a
// driver.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_choice.hpp"
#include "kernels/shared/arithmetic_op.hpp"

namespace hyrecall::cuda {
struct Object;
}

namespace hyrecall::device {

// What the library has made and ends: on any thread, without the GIL, also while the process ends.
using Handle = std::unique_ptr<cuda::Object, void (*)(cuda::Object*)>;

struct Device {
  std::string name;
  int major;  // compute capability
  int minor;
  std::uint64_t memory_bytes;
  int n_multiprocessors;
};

// What this process can see. No part of it raises: `problem` says why there is nothing to see.
struct Report {
  bool has_library = false;
  int driver_version = 0;   // 1000 x major + 10 x minor; 0 = no driver
  int runtime_version = 0;  // of libhyrecall_cuda, same form
  std::vector<Device> devices;
  std::string problem;  // empty: the library answered and there is at least one device
};

// folder: where libhyrecall_cuda.so lies.
Report describe(std::string const& folder);

// The golden table on a device: results[i] = op(arguments[i * kMaxArity ...]). Throws
// kDeviceUnavailable or kDeviceMemory, naming cuda:N and CUDA's reason.
std::vector<double> formulas(std::string const& folder, int ordinal, ArithmeticOp op,
                             std::span<double const> arguments);

struct Dots {
  std::vector<float> dots;           // [n_rows]
  std::vector<float> inverse_norms;  // [n_rows]
};
// rows: [n_rows, dim]. Throws as formulas().
Dots dots(std::string const& folder, int ordinal, std::span<float const> query,
          std::span<float const> rows);

// What the kernels of searches took, where HYRECALL_CUDA_TIMES=1 asks for it.
struct KernelTotal {
  std::string name;
  std::uint64_t n_launches;
  double milliseconds;
};
// What was added since the last call, in the order in which the kernels first ran.
std::vector<KernelTotal> take_kernel_times();

// The scans of a plane, by rising width.
std::vector<ScanVariant> scans_of(std::string const& folder, int ordinal, FirstPassPlane plane,
                                  KernelChoice kernels);

// The names of the scans that a device may run under a choice, also those that would run only if
// others were excluded.
std::vector<std::string> scans(std::string const& folder, int ordinal, KernelChoice kernels);

}  // namespace hyrecall::device
