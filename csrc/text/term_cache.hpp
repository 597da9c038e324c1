// What became of the raw tokens seen so far. Bounded, shared by the threads of one analyzer.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "text/string_table.hpp"
#include "text/terms.hpp"

namespace hyrecall::text {

class TermCache {
 public:
  using Value = std::shared_ptr<RawTerms const>;

  // One value a key of `keys`, null where it is unknown.
  std::vector<Value> find_all(StringTable const& keys) const {
    std::vector<Value> values(keys.size());
    std::lock_guard const lock(mutex_);
    for (std::uint32_t i = 0; i < keys.size(); ++i)
      if (std::uint32_t const id = keys_.find(keys[i]); id != kNone32) values[i] = values_[id];
    return values;
  }

  // Adds the keys numbered in `added`. Two threads may bring the same key: the first stays.
  void add_all(StringTable const& keys, std::vector<Value> const& values,
               std::vector<std::uint32_t> const& added) {
    std::lock_guard const lock(mutex_);
    for (std::uint32_t const i : added) {
      if (keys_.size() >= kMaxEntries || keys_.n_bytes() >= kMaxBytes) {
        keys_ = StringTable();
        values_.clear();
      }
      if (keys_.add(keys[i]) == values_.size()) values_.push_back(values[i]);
    }
  }

 private:
  static constexpr std::uint32_t kMaxEntries = 1'000'000;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

  mutable std::mutex mutex_;
  StringTable keys_;
  std::vector<Value> values_;  // [keys_.size()]
};

}  // namespace hyrecall::text
