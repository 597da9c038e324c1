// In which of two stages of a batch each tile is scanned.
//
// Tiles that a query reads stand at numbered positions. A query of few tiles reads them all in
// stage 0, the seed. A query of many tiles reads every stride-th position there, a sample: its j-th
// best score is a guess at the threshold for stage 1, which reads the rest. A text's threshold is
// no guess: the sample's depth-th best score. A sample of a query's own positions meets its rows
// wherever they lie.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/formulas.hpp"

namespace hyrecall {

inline constexpr std::uint32_t kMaxStages = 2;

// How a query reads its tiles.
enum class Sampling : std::uint32_t {
  kWhole,   // all in the seed
  kSample,  // a sample in the seed, the rest in stage 1
  kNone     // all in stage 1
};

// A stage as the arithmetic below wants it: multiples of `stride`, without those of `taken` (0:
// none were taken before). stride 0: nothing.
struct StageStep {
  std::uint32_t stride;
  std::uint32_t taken;
};

HYRECALL_HD inline StageStep stage_step(std::uint32_t stride, Sampling sampling,
                                        std::uint32_t stage) {
  bool const is_seed = stage == 0;
  if (sampling == Sampling::kSample) return is_seed ? StageStep{stride, 0} : StageStep{1, stride};
  return is_seed == (sampling == Sampling::kWhole) ? StageStep{1, 0} : StageStep{0, 0};
}

HYRECALL_HD inline std::uint32_t n_multiples(std::uint32_t begin, std::uint32_t end,
                                             std::uint32_t stride) {
  return (end + stride - 1) / stride - (begin + stride - 1) / stride;
}

// How many positions of [begin, end) the step takes.
HYRECALL_HD inline std::uint32_t n_in_step(StageStep step, std::uint32_t begin, std::uint32_t end) {
  if (step.stride == 0) return 0;
  std::uint32_t const all = n_multiples(begin, end, step.stride);
  return step.taken == 0 ? all : all - n_multiples(begin, end, step.taken);
}

// The i-th of them.
HYRECALL_HD inline std::uint32_t position_in_step(StageStep step, std::uint32_t begin,
                                                  std::uint32_t i) {
  std::uint32_t const first = (begin + step.stride - 1) / step.stride;  // in strides
  if (step.taken == 0) return (first + i) * step.stride;
  std::uint32_t const every = step.taken / step.stride;
  // Numbers that are no multiples of `every`, counted from 0: m is the (m - m / every - 1)-th.
  std::uint32_t const before = first - (first + every - 1) / every;
  std::uint32_t const wanted = before + i;
  return (wanted / (every - 1) * every + wanted % (every - 1) + 1) * step.stride;
}

// Which of a sample's scores is the guess. The sample holds about m = depth / stride of the best
// `depth` rows, as Poisson has it; the guess is too high if it holds at least this many of them.
// That happens to fewer than one query in 10,000: a pass that is made again costs more than the
// rows that a lower guess lets pass (docs/kernels/dense.md).
inline std::uint32_t guess_rank(std::uint32_t depth, std::uint32_t stride) {
  double const mean = static_cast<double>(depth) / stride;
  return static_cast<std::uint32_t>(std::ceil(mean + 3.5 * std::sqrt(mean) + 3.0));
}

}  // namespace hyrecall
