// A hash table from strings to their numbers, with open addressing.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/buffer.hpp"
#include "core/hash.hpp"
#include "core/types.hpp"

namespace hyrecall {

// Does not hold the strings; its owner passes them in each call.
class StringSlots {
 public:
  StringSlots() = default;
  explicit StringSlots(Strings const& strings) {  // distinct ones
    std::size_t const n = strings.size();
    std::vector<std::uint32_t> slots(std::bit_ceil(n + n / 2 + 1), kNone32);
    std::size_t const mask = slots.size() - 1;
    for (std::uint32_t number = 0; number < n; ++number) {
      std::size_t at = hash_bytes(strings[number]) & mask;
      while (slots[at] != kNone32) at = (at + 1) & mask;
      slots[at] = number;
    }
    slots_ = std::move(slots);
  }

  // kNone32 if it is none of them.
  std::uint32_t find(Strings const& strings, std::string_view wanted) const {
    return slots_.empty() ? kNone32 : find_from(strings, wanted, hash_bytes(wanted));
  }

  // Calls use(i, number) for i < n in order, where wanted(i) is a string. Looks up several strings
  // together, since a large table is not in the cache and their cache misses then overlap.
  template <typename F, typename G>
  void find_each(Strings const& strings, std::size_t n, F const& wanted, G const& use) const {
    constexpr std::size_t kAtOnce = 16;
    std::uint64_t hashes[kAtOnce];
    if (slots_.empty()) {
      for (std::size_t i = 0; i < n; ++i) use(i, kNone32);
      return;
    }
    for (std::size_t begin = 0; begin < n; begin += kAtOnce) {
      std::size_t const end = std::min(n, begin + kAtOnce);
      auto const first_of = [&](std::size_t i) { return slots_[hashes[i - begin] & mask()]; };
      for (std::size_t i = begin; i < end; ++i) {
        hashes[i - begin] = hash_bytes(wanted(i));
        __builtin_prefetch(&slots_[hashes[i - begin] & mask()]);
      }
      for (std::size_t i = begin; i < end; ++i) {
        if (first_of(i) != kNone32) __builtin_prefetch(&strings.offsets[first_of(i)]);
      }
      for (std::size_t i = begin; i < end; ++i) {
        if (first_of(i) != kNone32) __builtin_prefetch(strings[first_of(i)].data());
      }
      for (std::size_t i = begin; i < end; ++i)
        use(i, find_from(strings, wanted(i), hashes[i - begin]));
    }
  }

  std::size_t bytes() const { return slots_.bytes(); }

 private:
  std::size_t mask() const { return slots_.size() - 1; }
  std::uint32_t find_from(Strings const& strings, std::string_view wanted,
                          std::uint64_t hash) const {
    for (std::size_t at = hash & mask(); slots_[at] != kNone32; at = (at + 1) & mask()) {
      if (same_string(strings[slots_[at]], wanted)) return slots_[at];
    }
    return kNone32;
  }

  Buffer<std::uint32_t> slots_;  // kNone32 = free
};

}  // namespace hyrecall
