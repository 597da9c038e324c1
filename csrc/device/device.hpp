// The way to libhyrecall_cuda.so: loaded on first use, so that importing needs neither it nor a
// driver.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/shared/arithmetic_op.hpp"

namespace hyrecall::device {

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

}  // namespace hyrecall::device
