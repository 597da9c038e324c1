// The best k documents by (score desc, seq asc): a total order, so the answer does not depend on how it was reached.
#pragma once

#include <algorithm>
#include <vector>

#include "core/types.hpp"

namespace hyrecall {

struct Candidate {
  float score;
  Seq seq;
  std::uint32_t segment;
  Row row;

  friend bool operator<(Candidate const& a, Candidate const& b) {  // "comes before"
    return a.score != b.score ? a.score > b.score : a.seq < b.seq;
  }
};

class TopK {
 public:
  explicit TopK(std::size_t k) : k_(k) {}

  // The score a document must reach to be worth offering; seq decides at equality.
  float threshold() const {
    if (k_ == 0) return __builtin_inff();
    return heap_.size() < k_ ? -__builtin_inff() : heap_.front().score;
  }

  void offer(Candidate const& candidate) {
    if (heap_.size() < k_) {
      heap_.push_back(candidate);
      std::push_heap(heap_.begin(), heap_.end());
    } else if (k_ > 0 && candidate < heap_.front()) {
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.back() = candidate;
      std::push_heap(heap_.begin(), heap_.end());
    }
  }

  std::vector<Candidate> take() {
    std::sort(heap_.begin(), heap_.end());
    return std::move(heap_);
  }

  // Joins lists that are each the best k of their share.
  static std::vector<Candidate> join(std::vector<std::vector<Candidate>> lists, std::size_t k) {
    std::vector<Candidate> all = std::move(lists.front());
    for (std::size_t i = 1; i < lists.size(); ++i) all.insert(all.end(), lists[i].begin(), lists[i].end());
    if (lists.size() > 1) std::sort(all.begin(), all.end());
    if (all.size() > k) all.resize(k);
    return all;
  }

 private:
  std::size_t k_;
  std::vector<Candidate> heap_;  // the worst is in front
};

}  // namespace hyrecall
