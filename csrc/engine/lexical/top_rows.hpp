// The best k rows by (score desc, seq asc). A row's seq is read only if scores are equal, and for
// rows that are kept.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "engine/doc_ref.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

// Legal calls: reset() first. Then begin() for each segment, in any order, and offer() for its
// rows: each row at most once, and only with a score that reaches threshold(), which rises.
// expect(), tighten(), nth_score() and raise() may come between offers. End: take() returns the
// result; only reset() may follow. Cost: offer() takes constant time on average, because a
// selection halves the kept rows. tighten(), nth_score() and raise() are linear in the kept rows,
// at most max(2k, k + 64). take() sorts k rows.
class TopRows {
 public:
  std::size_t depth() const { return k_; }
  std::size_t size() const { return kept_.size(); }

  // Removes all rows.
  void reset(std::size_t k) {
    k_ = k;
    capacity_ = std::max(2 * k, k + kSlack);
    threshold_ = -std::numeric_limits<float>::infinity();
    has_worst_ = false;
    kept_.clear();
    seqs_.clear();
  }
  // The rows offered from here on are of this segment; rows below `least` do not count.
  void begin(std::uint32_t segment, Seq const* seqs, float least) {
    if (kept_.size() >= k_) shrink();
    if (seqs_.size() <= segment) seqs_.resize(segment + 1, nullptr);
    seqs_[segment] = seqs;
    segment_ = segment;
    expect(least);
  }
  // Rows offered from here on do not count below `least`.
  void expect(float least) {
    if (least <= threshold_) return;
    threshold_ = least;
    has_worst_ = false;
  }

  // No row with a lower score can be among the best.
  float threshold() const { return threshold_; }

  // Raises the threshold to the k-th best score, if enough rows came since the last time.
  void tighten() {
    if (kept_.size() >= k_ + std::max(kFewNew, k_ / 4)) shrink();
  }

  // Offers a row, at most once, whose score reaches the threshold.
  void offer(float score, Row row) {
    KeptRow const offered{score, {segment_, row}};
    if (has_worst_ && score == threshold_ && !before(offered, worst_)) return;
    kept_.push_back(offered);
    if (kept_.size() >= capacity_) shrink();
  }

  // The n-th best score so far (from 1), n <= size().
  float nth_score(std::size_t n) {
    select(n);
    return kept_[n - 1].score;
  }
  // Raises the threshold and drops rows below it.
  void raise(float threshold) {
    threshold_ = threshold;
    has_worst_ = false;
    std::erase_if(kept_, [&](KeptRow const& e) { return e.score < threshold; });
  }

  std::vector<Candidate> take() {
    if (kept_.size() > k_) shrink();
    std::sort(kept_.begin(), kept_.end(), [this](auto& a, auto& b) { return before(a, b); });
    std::vector<Candidate> out;
    out.reserve(kept_.size());
    for (KeptRow const& e : kept_) out.push_back({e.score, seq_of(e), e.doc});
    return out;
  }

 private:
  // So that a small k does not select at every other offer.
  static constexpr std::size_t kSlack = 64;
  static constexpr std::size_t kFewNew = 8;

  struct KeptRow {
    float score;
    DocRef doc;
  };

  Seq seq_of(KeptRow const& e) const { return seqs_[e.doc.segment][e.doc.row]; }
  bool before(KeptRow const& a, KeptRow const& b) const {
    return a.score != b.score ? a.score > b.score : seq_of(a) < seq_of(b);
  }
  void select(std::size_t n) {
    std::nth_element(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(n) - 1, kept_.end(),
                     [this](auto& a, auto& b) { return before(a, b); });
  }
  void shrink() {
    // The threshold may be higher already, by expect().
    if (k_ > 0 && nth_score(k_) >= threshold_) {
      worst_ = kept_[k_ - 1];
      threshold_ = worst_.score;
      has_worst_ = true;
    }
    kept_.resize(k_);
  }

  std::size_t k_ = 0;
  std::size_t capacity_ = 0;
  float threshold_ = 0.0f;
  bool has_worst_ = false;
  KeptRow worst_{};  // of the last selection: rows that sort after it cannot be among the best
  std::uint32_t segment_ = 0;
  std::vector<Seq const*> seqs_;  // by segment
  std::vector<KeptRow> kept_;
};

}  // namespace hyrecall
