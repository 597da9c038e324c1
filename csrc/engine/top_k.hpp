// The best k documents by (score desc, seq asc): a total order, so the answer does not depend on
// how it was reached.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "core/types.hpp"
#include "engine/doc_ref.hpp"

namespace hyrecall {

struct Candidate {
  float score;
  Seq seq;
  DocRef doc;

  friend bool operator<(Candidate const& a, Candidate const& b) {  // "comes before"
    return a.score != b.score ? a.score > b.score : a.seq < b.seq;
  }
};

using QueryLists = std::vector<std::vector<Candidate>>;  // [n_queries]

// Takes the lists of a whole batch as they are made, so that none is kept.
struct ListTaker {
  std::function<void(std::span<std::size_t const> sizes)> begin;  // [n_queries]; may come again
  // Of each query that has a list; on any thread.
  std::function<void(std::size_t query, std::span<Candidate const> list)> take;
  bool has_taken = false;
};

// Keeps up to twice k offers and halves them by selection: cheaper than a heap from k of some tens
// on.
class TopK {
 public:
  explicit TopK(std::size_t k) : k_(k) {}

  // The score a document must reach to be worth offering; seq decides at equality.
  float threshold() const { return threshold_; }

  void offer(Candidate const& candidate) {
    if (kept_.size() >= 2 * k_ + kSlack) shrink();
    if (kept_.size() < k_ || candidate < worst_) kept_.push_back(candidate);
  }

  // Brings the threshold up to the k-th best of all that was offered.
  void tighten() {
    if (kept_.size() >= k_) shrink();
  }

  std::vector<Candidate> take() {
    std::sort(kept_.begin(), kept_.end());
    if (kept_.size() > k_) kept_.resize(k_);
    return std::move(kept_);
  }

 private:
  static constexpr std::size_t kSlack =
      32;  // so that a small k does not select at every other offer

  void shrink() {
    if (k_ == 0) {
      kept_.clear();
      return;
    }
    std::nth_element(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(k_) - 1,
                     kept_.end());
    kept_.resize(k_);
    worst_ = kept_.back();
    threshold_ = worst_.score;
  }

  std::size_t k_;
  std::vector<Candidate> kept_;
  // Of the last selection: what comes after it cannot be among the best k.
  Candidate worst_{-__builtin_inff(), std::numeric_limits<Seq>::max(), {0, 0}};
  float threshold_ = -__builtin_inff();
};

}  // namespace hyrecall
