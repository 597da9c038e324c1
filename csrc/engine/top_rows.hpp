// The best k rows of one segment by (score desc, seq asc), gathered by score: a row's seq is read
// only where scores are equal.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "core/types.hpp"

namespace hyrecall {

class TopRows {
 public:
  struct Entry {
    float score;
    Row row;
  };

  // Forgets everything; a row must reach `threshold` to count.
  void reset(std::size_t k, Seq const* seqs, float threshold) {
    k_ = k;
    seqs_ = seqs;
    threshold_ = threshold;
    worst_ = kNone32;
    capacity_ = std::max(2 * k, k + kSlack);
    kept_.clear();
    if (kept_.capacity() < capacity_) kept_.reserve(capacity_);
  }

  // The score below which a row cannot be among the best.
  float threshold() const { return threshold_; }
  std::size_t size() const { return kept_.size(); }

  // Of a score that reaches the threshold; each row once.
  void offer(float score, Row row) {
    if (worst_ != kNone32 && score == threshold_ && seqs_[row] > seqs_[worst_]) return;
    kept_.push_back({score, row});
    if (kept_.size() == capacity_) shrink();
  }

  // The n-th best score so far (from 1), n <= size().
  float nth_score(std::size_t n) {
    auto const at = kept_.begin() + static_cast<std::ptrdiff_t>(n) - 1;
    std::nth_element(kept_.begin(), at, kept_.end(), [this](Entry const& a, Entry const& b) {
      return a.score != b.score ? a.score > b.score : seqs_[a.row] < seqs_[b.row];
    });
    return at->score;
  }
  // Forgets what is below.
  void raise(float threshold) {
    threshold_ = threshold;
    std::erase_if(kept_, [&](Entry const& e) { return e.score < threshold; });
  }

  // The best k, in no order.
  std::span<Entry const> best() {
    if (kept_.size() > k_) shrink();
    return kept_;
  }

 private:
  static constexpr std::size_t kSlack = 64;

  void shrink() {
    if (k_ == 0) {
      kept_.clear();
      return;
    }
    threshold_ = nth_score(k_);
    worst_ = kept_[k_ - 1].row;
    kept_.resize(k_);
  }

  std::size_t k_ = 0;
  Seq const* seqs_ = nullptr;
  float threshold_ = 0.0f;
  Row worst_ = kNone32;  // of the last selection
  std::size_t capacity_ = 0;
  std::vector<Entry> kept_;
};

}  // namespace hyrecall
