// Looks for values that are no numbers.
#pragma once

#include <span>

namespace hyrecall {

// Whether no value is NaN or infinite.
bool all_finite(std::span<float const> values);

}  // namespace hyrecall
