// The best k documents by (score desc, seq asc): a total order, so the answer does not depend on
// how it was reached.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "core/pooled.hpp"
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

// The lists of all queries of an arm in one block, in the order in which they came.
class CandidateLists {
 public:
  explicit CandidateLists(std::size_t n_queries) : places_(n_queries, {0, 0}) {}

  std::size_t size() const { return places_.size(); }
  void reserve(std::size_t n_rows) { rows_.reserve(n_rows); }
  // Room for a query's list, once a query.
  void add(std::size_t query, std::size_t n) {
    places_.at(query) = {rows_.size(), n};
    rows_.resize(rows_.size() + n);
  }
  // Room that was added; valid until the next is.
  std::span<Candidate> list(std::size_t query) {
    return std::span(rows_).subspan(places_[query].begin, places_[query].n);
  }
  std::span<Candidate const> operator[](std::size_t query) const {
    return std::span(rows_).subspan(places_[query].begin, places_[query].n);
  }

 private:
  struct Place {
    std::size_t begin;
    std::size_t n;
  };
  Pooled<Candidate> rows_;
  std::vector<Place> places_;  // [n_queries]
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
