// The border of libhyrecall_cuda: one exported function, hyrecall_cuda_api(), that gives a table of
// C functions. No CUDA type crosses it, so that the host side needs no CUDA header.
#pragma once

#include <cstdint>

namespace hyrecall::cuda {

// Raise it whenever anything in this file or the numbers of ArithmeticOp change.
inline constexpr std::int32_t kAbiVersion = 3;
inline constexpr int kMaxDevices = 64;

// What a call says of itself: code 0 is success, otherwise a cudaError_t and its text.
struct Status {
  std::int32_t code;
  char text[252];
};

struct DeviceProperties {
  char name[256];
  std::int32_t major;  // compute capability
  std::int32_t minor;
  std::uint64_t memory_bytes;
  std::int32_t n_multiprocessors;
  std::int32_t reserved;
};

struct DeviceTable {
  std::int32_t driver_version;   // 1000 x major + 10 x minor; 0 = no driver
  std::int32_t runtime_version;  // of the library, same form
  std::int32_t n_devices;
  std::int32_t reserved;
  DeviceProperties devices[kMaxDevices];
};

// results[i] = formula `op` of arguments[i * kMaxArity ...]; see kernels/arithmetic_op.hpp.
struct FormulaParams {
  double const* arguments;  // [n, kMaxArity] host
  double* results;          // [n]            host, out
  std::int64_t n;
  std::int32_t op;      // ArithmeticOp
  std::int32_t device;  // ordinal
};

// dots[i] = canonical dot of the query and row i; inverse_norms[i] = that of row i, 0 for a zero
// row.
struct DotParams {
  float const* query;    // [dim]          host
  float const* rows;     // [n_rows, dim]  host
  float* dots;           // [n_rows]       host, out
  float* inverse_norms;  // [n_rows]       host, out
  std::int64_t n_rows;
  std::int64_t dim;
  std::int32_t device;
  std::int32_t reserved;
};

struct Api {
  std::int32_t abi_version;  // first, so that any version can read it
  std::int32_t reserved;
  Status (*describe)(DeviceTable* out);
  Status (*formulas)(FormulaParams const* params);
  Status (*dots)(DotParams const* params);
};

}  // namespace hyrecall::cuda

// Signature of the exported function.
using HyrecallCudaApi = hyrecall::cuda::Api const*();
inline constexpr char const* kHyrecallCudaApiName = "hyrecall_cuda_api";
