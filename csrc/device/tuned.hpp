// What devices were measured to do best with: written by tools/tuned.py from
// bench/results/device/tune/*.json. A device that is not listed is read as the model says.
#pragma once

#include <array>

#include "device/dense_tuning.hpp"

namespace hyrecall {

// clang-format off
inline constexpr std::array<Tuned, 0> kTuned{};  // no sweep of a device is kept
// clang-format on

}  // namespace hyrecall
