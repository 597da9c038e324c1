// One query of the dense arm on its way through the rows: the best found so far, and rows of the
// first pass that may still be among them.
//
// The first pass says of a row only that its canonical score is at most reach + constant. Rows that
// may pass the threshold wait; when many do, the most promising are scored canonically, the k-th
// best score becomes the threshold, and what can no longer reach it is dropped.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/dense/column.hpp"
#include "engine/dense/query.hpp"
#include "engine/request/request.hpp"
#include "engine/scope/selection.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

// A threshold that threads raise together. It only rises, and is always the k-th best score of
// some of the rows, unless it began as a guess (engine/dense/first_threshold.hpp): whatever a
// thread reads is right.
class SharedThreshold {
 public:
  float load() const { return value_.load(std::memory_order_relaxed); }
  void reset() { value_.store(kLeast, std::memory_order_relaxed); }
  void raise(float value) {
    float seen = load();
    while (seen < value && !value_.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
  }

 private:
  static constexpr float kLeast = -1.0f;  // no cosine is less

  std::atomic<float> value_{kLeast};
};

// Legal calls: begin_window() before each window of rows. Then each row of the window at most once:
// wait() or wait_loosely(), if its reach is at least cut(), or score_tile() while is_plain().
// Between two tiles, go_plain() if has_exploded(). join() takes over another collector of the same
// query, which is not used again. End: finish() returns the result; no call may follow. Cost:
// wait() is constant, except that every `capacity` rows are settled together, which scores `depth`
// of them or more. wait_loosely() is constant; settle_loose() scores `depth` rows. score_tile()
// scores rows right away. finish() scores all rows that still may be among the best.
class DenseCollector {
 public:
  // depth: at least 1. All but the threshold must outlive it.
  DenseCollector(Snapshot const& snapshot, DenseRequest const& arm, std::uint32_t query,
                 QuantizedQuery const* quantized, std::size_t depth, SharedThreshold& shared);

  std::uint32_t query() const { return query_; }
  QuantizedQuery const& quantized() const { return *quantized_; }
  // A row passes if its reach is at least that.
  float cut() const { return cut_; }
  // No row below that is among the best.
  float threshold() const { return threshold_; }

  // Begins a window of rows: takes over the threshold and says whether to read it plainly.
  bool begin_window();
  // Of what waited, most could still be among the best: the first pass does not tell these rows
  // apart. To be asked between two tiles; from then on the query reads plainly, for some windows.
  bool has_exploded() const { return has_exploded_; }
  void go_plain();
  bool is_plain() const { return plain_windows_ > 0; }

  // A row that passed the first pass.
  void wait(float reach, DocRef doc) {
    waiting_.push_back({reach, doc});
    if (waiting_.size() >= capacity_) settle();
  }
  // A row that passed its head. reach: as of wait(), of a looser bound. Rows of this kind may be
  // many; most of them are never scored, since the best are scored first.
  void wait_loosely(float reach, DocRef doc) { loose_.push_back({reach, doc}); }
  // Scores the best of those and drops what can no longer pass: so the threshold rises.
  void settle_loose() { settle_loose(depth_); }
  // Raises the threshold if many rows of either kind are new.
  void settle_early();
  // Rows that wait loosely, or did and were scored.
  std::size_t n_loose() const { return loose_.size() + n_looked_; }
  // Rows of a tile, scored canonically right away.
  void score_tile(DenseColumn const& column, std::span<Seq const> seqs, std::uint32_t segment,
                  SelectedTile const& selected);
  // Takes over what another thread found for the same query.
  void join(DenseCollector&& other);
  // The best `depth`, by (score, seq). Nothing may follow.
  std::vector<Candidate> finish();

 private:
  struct Waiting {
    float reach;
    DocRef doc;
  };

  void settle();
  void settle_loose(std::size_t n);
  static void bring_forward(std::vector<Waiting>& rows, std::size_t n);
  // Of rows[from..], those that can no longer pass go; the rows before are done with.
  void drop_hopeless(std::vector<Waiting>& rows, std::size_t from) const;
  void score(std::span<Waiting> rows);
  void offer(float score, Seq seq, DocRef doc);
  void raise(float threshold);

  Snapshot const* snapshot_;
  DenseRequest const* arm_;
  std::uint32_t query_;
  QuantizedQuery const* quantized_;
  SharedThreshold* shared_;
  std::size_t depth_;
  std::size_t capacity_;
  TopK best_;
  std::vector<Waiting> waiting_;
  std::size_t n_waited_ = 0;  // of them: were there when they were settled last
  std::vector<Waiting> loose_;
  std::size_t n_settled_ = 0;  // of them: were there when they were settled last
  std::size_t n_looked_ = 0;   // that did, and were scored
  float threshold_;
  float cut_;
  bool has_exploded_ = false;
  int plain_windows_ = 0;
};

}  // namespace hyrecall
