// Scores as unsigned numbers of the same order, so that integer instructions compare, count and
// select them.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/formulas.hpp"

namespace hyrecall {

// Rises with the score; -0 and +0 are one key. NaN has no place (scores are finite).
HYRECALL_HD inline std::uint32_t score_key(float score) {
  float const value = score + 0.0f;  // -0 + 0 is +0
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

HYRECALL_HD inline float score_of_key(std::uint32_t key) {
  std::uint32_t const bits = (key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A candidate of the first pass: its lower score, then the slot (the row's number in the snapshot).
// Distinct, because slots are.
HYRECALL_HD inline std::uint64_t candidate_key(float score, std::uint32_t slot) {
  return static_cast<std::uint64_t>(score_key(score)) << 32 | slot;
}
HYRECALL_HD inline float candidate_score(std::uint64_t key) {
  return score_of_key(static_cast<std::uint32_t>(key >> 32));
}
HYRECALL_HD inline std::uint32_t candidate_slot(std::uint64_t key) {
  return static_cast<std::uint32_t>(key);
}

// Insertion numbers as unsigned numbers that fall as they rise: the older document comes first.
HYRECALL_HD inline std::uint64_t seq_key(std::int64_t seq) {
  return ~(static_cast<std::uint64_t>(seq) ^ 0x8000000000000000ULL);
}

HYRECALL_HD inline std::int64_t seq_of_key(std::uint64_t key) {
  return static_cast<std::int64_t>(~key ^ 0x8000000000000000ULL);
}

// The next float32 below; -inf stays. For thresholds: rounding must never lift one.
HYRECALL_HD inline float next_below(float value) {
  std::uint32_t const key = score_key(value);
  if (key <= 0x007fffffu) return value;
  return score_of_key(value == 0.0f ? key - 2 : key - 1);  // -0 has a key's place, but is 0
}

}  // namespace hyrecall
