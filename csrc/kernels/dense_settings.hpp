// What the environment forces on the dense pass: for tests of ways that it would not take by
// itself.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "kernels/dense_planner.hpp"

namespace hyrecall::device {

// An environment variable's value, "" if it is not set. Throws kOption if it is none of `values`.
std::string setting(char const* name, std::initializer_list<char const*> values);

// HYRECALL_DENSE_TUNING, "capacity,seed tiles,growth": little data then meets stages and overflow.
std::optional<DenseTuning> forced_tuning();

}  // namespace hyrecall::device
