// What:   the formulas of core/formulas.hpp and the canonical dot and norm, evaluated on the
// device. In/Out: FormulaParams, DotParams; n and dim at least 0, op known: checked by
// device/device.cpp. Launch: formulas: a thread an entry. dots: a warp a row. Cost:   of no
// account: golden tables only. Copies in and out on the default stream. Oracle: tests/golden, the
// committed table that every CPU instruction set must equal as well.
#include "kernels/cuda/api.cuh"
#include "kernels/cuda/status.cuh"
#include "kernels/cuda/warp_math.cuh"
#include "kernels/shared/arithmetic_op.hpp"

namespace hyrecall::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void evaluate_formula(ArithmeticOp op, double const* arguments, double* results,
                                 std::int64_t n) {
  std::int64_t const i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) results[i] = evaluate(op, arguments + i * kMaxArity);
}

__global__ void measure_rows(float const* query, float const* rows, std::int64_t n_rows,
                             std::uint32_t dim, float* dots, float* inverse_norms) {
  std::int64_t const row =
      (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kLanes;
  if (row >= n_rows) return;  // a whole warp leaves: its lanes share the row
  float const* const at = rows + row * dim;
  float const dot = dot_by_warp(dim, query, [at](std::uint32_t i) { return at[i]; });
  double const norm = norm_by_warp(dim, [at](std::uint32_t i) { return double{at[i]}; });
  if (lane_id() != 0) return;
  dots[row] = dot;
  inverse_norms[row] = inverse_norm(norm);
}

unsigned n_blocks(std::int64_t n_threads) {
  return static_cast<unsigned>((n_threads + kThreads - 1) / kThreads);
}

}  // namespace

Status run_formulas(FormulaParams const* params) {
  return guarded([&] {
    if (params->n == 0) return;
    DeviceScope const device_scope(params->device);
    auto const n = static_cast<std::size_t>(params->n);
    DeviceArray<double> const arguments(params->arguments, n * kMaxArity);
    DeviceArray<double> const results(n);
    check(launch(evaluate_formula, n_blocks(params->n), kThreads, 0, nullptr,
                 static_cast<ArithmeticOp>(params->op),
                 static_cast<double const*>(arguments.data()), results.data(), params->n));
    results.download(params->results);
  });
}

Status run_dots(DotParams const* params) {
  return guarded([&] {
    if (params->n_rows == 0) return;
    DeviceScope const device_scope(params->device);
    auto const n_rows = static_cast<std::size_t>(params->n_rows);
    auto const dim = static_cast<std::size_t>(params->dim);
    DeviceArray<float> const query(params->query, dim);
    DeviceArray<float> const rows(params->rows, n_rows * dim);
    DeviceArray<float> const dots(n_rows);
    DeviceArray<float> const inverse_norms(n_rows);
    check(launch(measure_rows, n_blocks(params->n_rows * kLanes), kThreads, 0, nullptr,
                 static_cast<float const*>(query.data()), static_cast<float const*>(rows.data()),
                 params->n_rows, static_cast<std::uint32_t>(params->dim), dots.data(),
                 inverse_norms.data()));
    dots.download(params->dots);
    inverse_norms.download(params->inverse_norms);
  });
}

}  // namespace hyrecall::cuda
