// Collects the best rows of one query of the dense arm: the best rows found so far, and rows that
// passed the first pass and may still be among them.
//
// The first pass gives only an upper bound of a row's canonical score: reach + constant. Rows whose
// bound reaches the threshold wait. When many wait, those with the highest bounds are scored
// canonically, the k-th best score becomes the threshold, and rows below it are dropped.
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
// some of the rows, unless it began as a guess (engine/dense/first_threshold.hpp). So every value
// that a thread reads is a valid threshold.
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
// query, which is not used again. Last, finish() returns the result; no call may follow. Cost:
// wait() takes constant time, except that every `capacity` rows are settled together, which scores
// `depth` of them or more. wait_loosely() takes constant time; settle_loose() scores `depth` rows.
// score_tile() scores rows at once. finish() scores all rows that may still be among the best.
class DenseCollector {
 public:
  // depth: at least 1. All arguments but the threshold must outlive the collector.
  DenseCollector(Snapshot const& snapshot, DenseRequest const& arm, std::uint32_t query,
                 QuantizedQuery const* quantized, std::size_t depth, SharedThreshold& shared);

  std::uint32_t query() const { return query_; }
  QuantizedQuery const& quantized() const { return *quantized_; }
  // A row passes if its reach is at least this.
  float cut() const { return cut_; }
  // No row with a lower score is among the best.
  float threshold() const { return threshold_; }

  // Begins a window of rows: reads the shared threshold, and returns whether to scan the window
  // without the first pass.
  bool begin_window();
  // Whether most of the waiting rows can still be among the best, so the first pass cannot tell
  // these rows apart. Call it between two tiles; then go_plain(), for some windows.
  bool has_exploded() const { return has_exploded_; }
  void go_plain();
  bool is_plain() const { return plain_windows_ > 0; }

  // Adds a row that passed the first pass.
  void wait(float reach, DocRef doc) {
    waiting_.push_back({reach, doc});
    if (waiting_.size() >= capacity_) settle();
  }
  // Adds a row whose head passed. reach: as in wait(), but from a looser bound. There may be many
  // such rows; most are never scored, since those with the highest bounds are scored first.
  void wait_loosely(float reach, DocRef doc) { loose_.push_back({reach, doc}); }
  // Scores the rows of these with the highest bounds, which raises the threshold, and drops rows
  // that can no longer pass.
  void settle_loose() { settle_loose(depth_); }
  // Raises the threshold if many rows of either kind are new.
  void settle_early();
  // Rows that wait loosely, or waited loosely and were scored.
  std::size_t n_loose() const { return loose_.size() + n_looked_; }
  // Scores rows of a tile canonically at once.
  void score_tile(DenseColumn const& column, std::span<Seq const> seqs, std::uint32_t segment,
                  SelectedTile const& selected);
  // Takes over the rows that another thread found for the same query.
  void join(DenseCollector&& other);
  // Returns the best `depth` rows, by (score, seq).
  std::vector<Candidate> finish();

 private:
  struct Waiting {
    float reach;
    DocRef doc;
  };

  void settle();
  void settle_loose(std::size_t n);
  static void bring_forward(std::vector<Waiting>& rows, std::size_t n);
  // Drops rows[0..from), and of the others those that can no longer pass.
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
  std::size_t n_waited_ = 0;  // size of waiting_ after the last settle()
  std::vector<Waiting> loose_;
  std::size_t n_settled_ = 0;  // size of loose_ after the last settle_loose()
  std::size_t n_looked_ = 0;   // rows of loose_ that were scored and removed
  float threshold_;
  float cut_;
  bool has_exploded_ = false;
  int plain_windows_ = 0;
};

}  // namespace hyrecall
