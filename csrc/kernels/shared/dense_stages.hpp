// In which stage of a batch each tile is scanned.
//
// Tiles that a query reads stand at numbered positions. Stage 0 takes every stride-th position,
// each later stage the rest of the multiples of a stride `growth` times smaller, the last all that
// are left. After a stage the k-th best candidate is a threshold for the next: any subset's k-th
// best is a lower bound of the whole's, so staging changes how many candidates are kept, never the
// answer. A sample of a query's own positions meets its rows wherever they lie.
#pragma once

#include <cstdint>

#include "core/formulas.hpp"

namespace hyrecall {

inline constexpr std::uint32_t kMaxStages = 8;

// A stage as the arithmetic below wants it: multiples of `stride`, without those of `taken` (0:
// none were taken before). stride 0: nothing.
struct StageStep {
  std::uint32_t stride;
  std::uint32_t taken;
};

// The step of a stage for queries whose first stride is growth^level.
HYRECALL_HD inline StageStep stage_step(std::uint32_t growth, std::uint32_t level,
                                        std::uint32_t stage) {
  if (stage > level) return {0, 0};
  std::uint32_t stride = 1;
  for (std::uint32_t i = stage; i < level; ++i) stride *= growth;
  return {stride, stage == 0 ? 0 : stride * growth};
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
  std::uint32_t const growth = step.taken / step.stride;
  // Numbers that are no multiples of growth, counted from 0: m is the (m - m / growth - 1)-th.
  std::uint32_t const before = first - (first + growth - 1) / growth;
  std::uint32_t const wanted = before + i;
  return (wanted / (growth - 1) * growth + wanted % (growth - 1) + 1) * step.stride;
}

// The level of a query that reads n_tiles: the least whose first stage is at most seed_tiles (>=
// 1). Its first stride is below growth * n_tiles: 2^30, as growth <= 32 and n_tiles <= 2^25.
HYRECALL_HD inline std::uint32_t stage_level(std::uint32_t growth, std::uint32_t seed_tiles,
                                             std::uint32_t n_tiles) {
  std::uint32_t level = 0;
  for (std::uint32_t left = n_tiles; left > seed_tiles && level + 1 < kMaxStages; ++level)
    left = (left + growth - 1) / growth;
  return level;
}

}  // namespace hyrecall
