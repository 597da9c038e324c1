// The threads of a snapshot: one number for each, over all segments, and what lives of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/doc_ref.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {

// The threads of one segment behind others. It depends on these segments, and what it counts on
// which of their rows live; nothing in it changes, so that later snapshots have it, too.
struct NumberedThreads {
  // A thread that a segment before has numbered.
  struct Repeated {
    std::uint32_t number;
    std::uint32_t own;  // in this segment's table
  };

  std::uint64_t segment_id = 0, view_id = 0;
  std::uint32_t first = 0;             // the number of its first new thread
  std::uint32_t end = 0;               // of its last one, + 1
  std::vector<std::uint32_t> numbers;  // [own thread]; empty: all are new
  std::vector<std::uint32_t> fresh;    // [number - first] the own thread; empty: all are new
  std::vector<Repeated> repeated;      // rising numbers
  // What lives: [column][own thread]; empty: nothing is dead, the segment has them.
  std::vector<std::vector<ThreadText>> texts;
  // [column][cell] the threads with a text that no segment before has one of, and the lengths of
  // all rows in threads.
  std::vector<std::vector<ThreadText>> cells;

  std::uint32_t number(std::uint32_t own) const {
    return numbers.empty() ? first + own : numbers[own];
  }
};

// How many threads hold a term, as far as it was asked. Entries stay as long as the snapshot; there
// is room for so many.
class ThreadFreqs {
 public:
  ThreadFreqs() = default;
  ~ThreadFreqs();
  ThreadFreqs(ThreadFreqs const&) = delete;
  ThreadFreqs& operator=(ThreadFreqs const&) = delete;

  static constexpr std::size_t kMost = 4096;

  // key: whatever names a term and who may see what.
  std::optional<std::int64_t> find(std::string_view key) const;
  void keep(std::string_view key, std::int64_t freq);

 private:
  struct Entry {
    std::string key;
    std::int64_t freq;
  };
  static constexpr std::size_t kTries = 8;
  std::array<std::atomic<Entry const*>, kMost> entries_{};
};

class SnapshotThreads {
 public:
  // Of segments with threads. before: of an earlier state of the index.
  explicit SnapshotThreads(Snapshot const& snapshot, ThreadRun const& before = {});

  // A thread's rows in one segment.
  struct Part {
    std::uint32_t segment;
    std::uint32_t thread;  // of the segment's table
  };

  std::size_t size() const { return run_.empty() ? 0 : run_.back()->end; }
  // The thread of a document, or kNone32.
  std::uint32_t of(DocRef doc) const {
    std::uint32_t const own = tables_[doc.segment]->thread_of(doc.row);
    return own == kNone32 ? kNone32 : held_[doc.segment]->number(own);
  }
  // A thread's parts, the segment that numbered it first.
  void parts(std::uint32_t thread, std::vector<Part>& out) const;
  ThreadTable const& table(std::uint32_t segment) const { return *tables_[segment]; }
  NumberedThreads const& numbered(std::uint32_t segment) const { return *held_[segment]; }
  // What lives of a thread in a lexical column.
  ThreadText text(std::size_t column, std::span<Part const> parts) const;
  // Of a cell in a segment: the threads with a text that are counted there (each once in the
  // snapshot), and the lengths of its rows in threads.
  ThreadText const& cell(std::size_t column, std::uint32_t segment, std::uint32_t cell) const {
    return held_[segment]->cells[column][cell];
  }
  ThreadRun const& run() const { return run_; }
  ThreadFreqs& freqs() const { return freqs_; }

 private:
  std::vector<ThreadText> const& texts(std::size_t column, std::uint32_t segment) const;
  void number_threads(Snapshot const& snapshot, std::size_t at, NumberedThreads& out) const;
  void count_texts(Snapshot const& snapshot, std::size_t at, NumberedThreads& out) const;

  std::vector<Segment const*> segments_;      // [segment]
  std::vector<ThreadTable const*> tables_;    // [segment]
  std::vector<std::uint32_t> order_;          // segments, the largest first
  ThreadRun run_;                             // [place in order_]
  std::vector<NumberedThreads const*> held_;  // [segment]
  mutable ThreadFreqs freqs_;
};

// What the state after a snapshot need not make again.
ThreadRun known_threads(Snapshot const& snapshot);

// Those of a snapshot, made by whoever asks first. Cost then: the threads of the segments that no
// earlier state had, and of those with rows that died since.
SnapshotThreads const& threads_of(Snapshot const& snapshot);

}  // namespace hyrecall
