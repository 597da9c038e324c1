// An immutable run of documents sorted by (cell, cluster, seq), and a view of it that knows which
// are dead.
#pragma once

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/block_checks.hpp"
#include "engine/segment/attributes.hpp"
#include "engine/segment/cells.hpp"
#include "engine/segment/keys.hpp"
#include "engine/segment/paged_map.hpp"
#include "engine/segment/threads.hpp"

namespace hyrecall {

// What a segment holds of its columns are pointers: it lies below them, and what it computes from
// them is in engine/segment_columns.cpp.
struct DenseColumn;
class LexicalColumn;

// BM25 statistics of one cell in one lexical arm.
struct CellTextStatistics {
  std::int64_t n_docs = 0;          // documents with a text
  std::int64_t total_length = 0;    // sum of their lengths
  std::int64_t squared_length = 0;  // sum of the squares of their lengths
};

// What the documents of one thread have in one lexical arm.
struct ThreadText {
  std::int64_t n_docs = 0;        // documents with a text
  std::int64_t total_length = 0;  // sum of their lengths
};

// A segment's threads, and what they have in each lexical arm, dead rows included.
struct SegmentThreads {
  ThreadTable table;
  std::vector<std::vector<ThreadText>> texts;  // [arm][thread]
};

struct Segment {
  struct Parts {
    Buffer<Seq> seqs;  // [n_rows]
    CellDirectory cells;
    KeyTable keys;
    std::vector<std::shared_ptr<LexicalColumn const>> lexical;  // by arm, in schema order
    std::vector<std::shared_ptr<DenseColumn const>> dense;      // by arm, in schema order
    std::vector<std::shared_ptr<AttributeColumn const>> attributes;
    std::optional<ThreadColumns> threads{};
    // Of a file that was opened without reading its rows: seqs, attributes, lengths of texts and
    // norms of vectors that were not compared yet, and what all seqs are below.
    std::vector<LateBytes> late{};
    Seq next_seq = std::numeric_limits<Seq>::max();
  };

  explicit Segment(Parts parts);
  ~Segment() {
    delete threads_.load(std::memory_order_acquire);
    delete text_statistics_.load(std::memory_order_acquire);
  }
  Segment(Segment const&) = delete;
  Segment& operator=(Segment const&) = delete;

  using TextStatistics = std::vector<std::vector<CellTextStatistics>>;  // [arm][cell]

  Parts const p;

  // Checks what opening left, once. Whoever resolves a scope with a row here calls it, so that no
  // search reads rows before; so does what reads rows without a scope.
  void check() const {
    if (!is_checked_.load(std::memory_order_acquire)) check_rows();
  }
  // Made by whoever asks first.
  TextStatistics const& text_statistics() const;

  // Different for every segment of the process.
  std::uint64_t id() const { return id_; }
  std::size_t n_rows() const { return p.seqs.size(); }
  bool has_threads() const { return p.threads.has_value(); }
  // Made by whoever asks first; only where has_threads().
  SegmentThreads const& threads() const;

  struct Bytes {
    std::size_t cells = 0;
    std::size_t keys = 0;
    std::size_t attributes = 0;
    std::size_t statistics = 0;
  };
  // Memory of all but the text and vector columns, which tell it themselves.
  Bytes bytes() const;

 private:
  void check_rows() const;

  std::uint64_t const id_;
  mutable std::atomic<bool> is_checked_;
  // Owned; plain pointers, because no fork may meet a lock that is held.
  mutable std::atomic<SegmentThreads const*> threads_{nullptr};
  mutable std::atomic<TextStatistics const*> text_statistics_{nullptr};
};

// Which rows live. Pages of 4,096 rows are shared between versions; no page = all its rows live.
class LiveSet {
 public:
  explicit LiveSet(std::size_t n_rows) : pages_((n_rows + kPageRows - 1) / kPageRows) {}

  bool operator[](Row row) const {
    auto const& page = pages_[row / kPageRows];
    return page == nullptr || ((*page)[row % kPageRows / 64] >> (row % 64) & 1) != 0;
  }
  TileMask tile(std::size_t tile) const {
    auto const& page = pages_[tile * kTileRows / kPageRows];
    if (page == nullptr) return TileMask::all();
    std::size_t const word = tile * kTileRows % kPageRows / 64;
    return {(*page)[word], (*page)[word + 1]};
  }
  void kill(std::span<Row const> rows);
  // Calls f(row) for each dead row below n_rows, rising.
  template <typename F>
  void for_each_dead(Row n_rows, F&& f) const {
    for (std::size_t page = 0; page < pages_.size(); ++page) {
      if (pages_[page] == nullptr) continue;
      Row const begin = static_cast<Row>(page * kPageRows);
      for (Row row = begin; row < std::min<std::size_t>(n_rows, begin + kPageRows); ++row) {
        if (!(*this)[row]) f(row);
      }
    }
  }

 private:
  static constexpr std::size_t kPageRows = 4096;
  using Page = std::array<std::uint64_t, kPageRows / 64>;
  std::vector<std::shared_ptr<Page const>> pages_;
};

// What deletes took away from the statistics of a segment. Exact under L2 and L3: a live view
// equals a rebuild.
struct DeadStatistics {
  std::vector<PagedCounts> postings;  // by arm: (term, cell) -> dead documents holding the term
  std::vector<PagedCounts> docs;      // by arm: (cell, 0) -> dead documents with a text
  // By arm: (cell, 0) -> their length, (cell, 1) -> the squares of their lengths.
  std::vector<PagedCounts> total_length;
};

class SegmentView {
 public:
  explicit SegmentView(std::shared_ptr<Segment const> segment);

  Segment const& segment() const { return *segment_; }
  std::shared_ptr<Segment const> const& shared_segment() const { return segment_; }
  LiveSet const& live() const { return live_; }
  // Equal for views of one segment with the same dead rows only.
  std::uint64_t id() const { return id_; }
  std::size_t n_dead() const { return n_dead_; }
  std::size_t n_live() const { return segment_->n_rows() - n_dead_; }
  // The view after the death of these rows (live ones, each once).
  SegmentView without(std::span<Row const> rows) const;

  CellTextStatistics text_statistics(std::size_t arm, std::uint32_t cell) const;
  // Dead documents holding the term, over the given cells (rising).
  std::int64_t dead_doc_freq(std::size_t arm, TermId term,
                             std::span<std::uint32_t const> cells) const;
  // The live row of an identity, or kNone32.
  Row find(std::string_view cell, KeyValue const& key) const;
  std::vector<Row> dead_rows() const;

 private:
  std::shared_ptr<Segment const> segment_;
  std::uint64_t id_;
  LiveSet live_;
  std::size_t n_dead_ = 0;
  DeadStatistics dead_;
};

class DeviceSnapshot;
class SnapshotThreads;
struct NumberedThreads;

// What is known of the threads of a snapshot's first segments, by size.
using ThreadRun = std::vector<std::shared_ptr<NumberedThreads const>>;

// Where a snapshot keeps what is told of its threads, which whoever asks first makes.
class ThreadsSlot {
 public:
  // run: of an earlier state; what both have alike is not made again.
  explicit ThreadsSlot(ThreadRun run = {}) : known(std::move(run)) {}
  ~ThreadsSlot();
  ThreadsSlot(ThreadsSlot const&) = delete;
  ThreadsSlot& operator=(ThreadsSlot const&) = delete;

  ThreadRun const known;
  std::atomic<SnapshotThreads const*> made{nullptr};  // owned
};

// All that a reader sees: immutable, shared, replaced as a whole by the writer.
struct Snapshot {
  std::vector<std::shared_ptr<SegmentView const>> segments;
  std::shared_ptr<DeviceSnapshot const> device{};  // the same on a CUDA device; null: on the CPU
  std::shared_ptr<ThreadsSlot> threads = std::make_shared<ThreadsSlot>();

  std::int64_t n_docs() const {
    std::int64_t n = 0;
    for (auto const& view : segments) n += static_cast<std::int64_t>(view->n_live());
    return n;
  }
};

// Throws unless all segments have the same columns.
void check_alike(Snapshot const& snapshot);

}  // namespace hyrecall
