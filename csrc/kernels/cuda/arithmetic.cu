// What:   the formulas of core/formulas.hpp and the canonical dot and norm, evaluated on the
// device. In/Out: FormulaParams, DotParams; n and dim at least 0, op known: checked by
// kernels/device.cpp. Launch: formulas: a thread an entry. dots: a warp a row, lane j of the warp
// is lane j of the definition. Cost:   of no account: golden tables only. Copies in and out on the
// default stream. Oracle: tests/golden, the committed table that every CPU instruction set must
// equal as well.
#include "kernels/arithmetic_op.hpp"
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/status.cuh"

namespace hyrecall::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void evaluate_formula(ArithmeticOp op, double const* arguments, double* results,
                                 std::int64_t n) {
  std::int64_t const i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) results[i] = evaluate(op, arguments + i * kMaxArity);
}

__global__ void dot_rows(float const* query, float const* rows, std::int64_t n_rows,
                         std::int64_t dim, float* dots) {
  std::int64_t const row =
      (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kLanes;
  int const lane = threadIdx.x % kLanes;
  if (row >= n_rows) return;  // a whole warp leaves: its lanes share the row
  float sum = 0.0f;
  for (std::int64_t base = 0; base < dim; base += kLanes) {
    std::int64_t const i = base + lane;
    float const x = i < dim ? rows[row * dim + i] : 0.0f;
    float const q = i < dim ? query[i] : 0.0f;
    sum = __fmaf_rn(x, q, sum);
  }
  for (int width = kLanes / 2; width >= 1; width /= 2)
    sum = sum + __shfl_down_sync(0xffffffffu, sum, width);
  if (lane == 0) dots[row] = sum;
}

__global__ void invert_norms(float const* rows, std::int64_t n_rows, std::int64_t dim,
                             float* inverse_norms) {
  std::int64_t const row = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= n_rows) return;
  float const* const at = rows + row * dim;
  double const norm = row_norm(static_cast<std::size_t>(dim),
                               [at](std::size_t i) { return static_cast<double>(at[i]); });
  inverse_norms[row] = inverse_norm(norm);
}

unsigned n_blocks(std::int64_t n_threads) {
  return static_cast<unsigned>((n_threads + kThreads - 1) / kThreads);
}

}  // namespace

Status run_formulas(FormulaParams const* params) {
  if (params->n == 0) return {};
  if (cudaError_t const error = cudaSetDevice(params->device); error != cudaSuccess)
    return status_of(error);
  auto const n = static_cast<std::size_t>(params->n);
  DeviceArray<double> arguments(n * kMaxArity);
  DeviceArray<double> results(n);
  if (results.error() != cudaSuccess) return status_of(results.error());
  if (cudaError_t const error = arguments.upload(params->arguments); error != cudaSuccess)
    return status_of(error);
  evaluate_formula<<<n_blocks(params->n), kThreads>>>(static_cast<ArithmeticOp>(params->op),
                                                      arguments.data(), results.data(), params->n);
  if (cudaError_t const error = cudaGetLastError(); error != cudaSuccess) return status_of(error);
  return status_of(results.download(params->results));
}

Status run_dots(DotParams const* params) {
  if (params->n_rows == 0) return {};
  if (cudaError_t const error = cudaSetDevice(params->device); error != cudaSuccess)
    return status_of(error);
  auto const n_rows = static_cast<std::size_t>(params->n_rows);
  auto const dim = static_cast<std::size_t>(params->dim);
  DeviceArray<float> query(dim);
  DeviceArray<float> rows(n_rows * dim);
  DeviceArray<float> dots(n_rows);
  DeviceArray<float> inverse_norms(n_rows);
  if (dots.error() != cudaSuccess) return status_of(dots.error());
  if (inverse_norms.error() != cudaSuccess) return status_of(inverse_norms.error());
  if (cudaError_t const error = query.upload(params->query); error != cudaSuccess)
    return status_of(error);
  if (cudaError_t const error = rows.upload(params->rows); error != cudaSuccess)
    return status_of(error);
  dot_rows<<<n_blocks(params->n_rows * kLanes), kThreads>>>(
      query.data(), rows.data(), params->n_rows, params->dim, dots.data());
  invert_norms<<<n_blocks(params->n_rows), kThreads>>>(rows.data(), params->n_rows, params->dim,
                                                       inverse_norms.data());
  if (cudaError_t const error = cudaGetLastError(); error != cudaSuccess) return status_of(error);
  if (cudaError_t const error = dots.download(params->dots); error != cudaSuccess)
    return status_of(error);
  return status_of(inverse_norms.download(params->inverse_norms));
}

}  // namespace hyrecall::cuda
