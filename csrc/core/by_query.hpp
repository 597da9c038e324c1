// Entries of all queries of a batch, back to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace hyrecall {

// Query q has the entries from offsets[q] to offsets[q + 1]. The offsets are copied, so that no
// caller can change them after the check; the entries must outlive this object.
template <typename T>
class ByQuery {
 public:
  // Throws unless the offsets divide the entries into one part for each query.
  ByQuery(std::size_t n_queries, std::span<std::int64_t const> offsets, std::span<T const> entries)
      : offsets_(offsets.begin(), offsets.end()), entries_(entries) {
    bool sound = offsets_.size() == n_queries + 1 && offsets_.front() == 0 &&
                 offsets_.back() == static_cast<std::int64_t>(entries.size());
    for (std::size_t q = 0; sound && q < n_queries; ++q) sound = offsets_[q] <= offsets_[q + 1];
    require(sound, "rising offsets, from 0 to the number of entries");
  }

  std::size_t n_queries() const { return offsets_.size() - 1; }
  std::span<std::int64_t const> offsets() const { return offsets_; }
  std::size_t begin(std::size_t q) const { return static_cast<std::size_t>(offsets_[q]); }
  std::span<T const> entries() const { return entries_; }
  std::span<T const> operator[](std::size_t q) const { return of(q, entries_); }
  // Query q's part of another array in the same order.
  template <typename Other>
  std::span<Other const> of(std::size_t q, std::span<Other const> others) const {
    return others.subspan(begin(q), static_cast<std::size_t>(offsets_[q + 1] - offsets_[q]));
  }

 private:
  std::vector<std::int64_t> offsets_;  // [n_queries + 1]
  std::span<T const> entries_;
};

}  // namespace hyrecall
