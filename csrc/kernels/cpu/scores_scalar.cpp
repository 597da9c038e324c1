// Summing and sifting without vector instructions of our own.
#include <algorithm>
#include <bit>

#include "kernels/cpu/scores.hpp"

namespace hyrecall::cpu {
namespace scalar {
namespace {

#include "kernels/cpu/scores.inl.hpp"

std::size_t sift(float* scores, std::size_t n, float threshold, std::uint32_t* places,
                 float* values) {
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < n; begin += kSiftRows) {
    // Scores that are never negative order as their bits do.
    std::int32_t top = 0;
    for (std::size_t i = begin; i < begin + kSiftRows; ++i)
      top = std::max(top, std::bit_cast<std::int32_t>(scores[i]));
    if (std::bit_cast<float>(top) >= threshold) {
      for (std::size_t i = begin; i < begin + kSiftRows; ++i) {
        if (scores[i] < threshold) continue;
        places[found] = static_cast<std::uint32_t>(i);
        values[found++] = scores[i];
      }
    }
    std::fill_n(scores + begin, kSiftRows, 0.0f);
  }
  return found;
}

}  // namespace
}  // namespace scalar

ScoreKernels scalar_score_kernels() {
  return {&scalar::add_coded, &scalar::sift, &scalar::select_one_by_one};
}

}  // namespace hyrecall::cpu
