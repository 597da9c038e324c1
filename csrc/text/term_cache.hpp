// What became of the raw tokens seen so far. Bounded, shared by the threads of one analyzer.
#pragma once

#include <bit>
#include <memory>
#include <mutex>
#include <vector>

#include "core/fork_mutex.hpp"
#include "text/string_table.hpp"
#include "text/terms.hpp"

namespace hyrecall::text {

class TermCache {
 public:
  using Value = std::shared_ptr<RawTerms const>;

  // Fills the values of the keys numbered in `wanted` and returns the numbers of those that are
  // unknown. Key number i has value number i - first, here and in add_all.
  std::vector<std::uint32_t> find_all(StringTable const& keys,
                                      std::vector<std::uint32_t> const& wanted,
                                      std::vector<Value>& values, std::uint32_t first) const {
    std::vector<std::uint32_t> missing;
    std::lock_guard const lock(fork_mutex<TermCache>());
    for (std::uint32_t const i : wanted) {
      std::uint32_t const id = keys_.find(keys[i]);
      if (id == kNone32)
        missing.push_back(i);
      else
        values[i - first] = values_[id];
    }
    return missing;
  }

  // Adds the keys numbered in `added`. Two threads may bring the same key: the first stays.
  void add_all(StringTable const& keys, std::vector<Value> const& values,
               std::vector<std::uint32_t> const& added, std::uint32_t first) {
    std::lock_guard const lock(fork_mutex<TermCache>());
    for (std::uint32_t const i : added) {
      if (keys[i].size() > kMaxKeyBytes) continue;
      if (keys_.size() >= kMaxEntries || keys_.n_bytes() >= kMaxBytes) {
        keys_ = StringTable();
        values_.clear();
      }
      values_.reserve(std::bit_ceil(values_.size() + 1));  // first: one that fails adds neither
      if (keys_.add(keys[i]) == values_.size()) values_.push_back(values[i - first]);
    }
  }

 private:
  static constexpr std::uint32_t kMaxEntries = 1'000'000;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  // Longer tokens are rare and seldom come again, and their terms can take many times their size.
  static constexpr std::size_t kMaxKeyBytes = 256;

  StringTable keys_;
  std::vector<Value> values_;  // [keys_.size()]
};

}  // namespace hyrecall::text
