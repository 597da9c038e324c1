// Offsets of 64 bits that take four bytes each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hyrecall {

// Ascending offsets, stored as their low halves and the few places where the high half increases.
class NarrowOffsets {
 public:
  NarrowOffsets() = default;
  explicit NarrowOffsets(std::span<std::uint64_t const> offsets) {
    low_.reserve(offsets.size());
    for (std::uint64_t const offset : offsets) push_back(offset);
  }

  void push_back(std::uint64_t offset) {  // not below the last
    while (rises_.size() < offset >> 32) rises_.push_back(low_.size());
    low_.push_back(static_cast<std::uint32_t>(offset));
  }

  std::size_t size() const { return low_.size(); }
  std::uint64_t operator[](std::size_t i) const {
    if (rises_.empty()) return low_[i];
    auto const high = std::upper_bound(rises_.begin(), rises_.end(), i) - rises_.begin();
    return static_cast<std::uint64_t>(high) << 32 | low_[i];
  }
  std::vector<std::uint64_t> wide() const {
    std::vector<std::uint64_t> out(size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = (*this)[i];
    return out;
  }
  std::size_t bytes() const {
    return low_.size() * sizeof(std::uint32_t) + rises_.size() * sizeof(std::size_t);
  }

 private:
  std::vector<std::uint32_t> low_;
  // Holds i as many times as the high half increases between offset i - 1 and offset i.
  std::vector<std::size_t> rises_;
};

}  // namespace hyrecall
