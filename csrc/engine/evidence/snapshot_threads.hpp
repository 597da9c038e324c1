// The threads of a snapshot: one number for each, over all segments, and what lives of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/doc_ref.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {

class SnapshotThreads {
 public:
  // Of segments with threads.
  explicit SnapshotThreads(Snapshot const& snapshot);

  // A thread's rows in one segment.
  struct Part {
    std::uint32_t segment;
    std::uint32_t thread;  // of the segment's table
  };

  std::size_t size() const { return parts_.size(); }
  // The thread of a document, or kNone32.
  std::uint32_t of(DocRef doc) const {
    std::uint32_t const own = tables_[doc.segment]->thread_of(doc.row);
    return own == kNone32 ? kNone32 : numbers_[doc.segment][own];
  }
  std::span<Part const> parts(std::uint32_t thread) const { return parts_[thread]; }
  ThreadTable const& table(std::uint32_t segment) const { return *tables_[segment]; }
  // What lives of a thread in a lexical column.
  ThreadText const& text(std::size_t column, std::uint32_t thread) const {
    return texts_[column][thread];
  }
  // Of a cell in a segment: the threads with a text that are counted there (each once in the
  // snapshot), and their length in all segments.
  ThreadText const& cell(std::size_t column, std::uint32_t segment, std::uint32_t cell) const {
    return cells_[column][segment][cell];
  }

 private:
  std::vector<ThreadTable const*> tables_;           // [segment]
  std::vector<std::vector<std::uint32_t>> numbers_;  // [segment][thread of its table]
  std::vector<std::vector<Part>> parts_;             // [thread], the one that counts it first
  std::vector<std::vector<ThreadText>> texts_;       // [column][thread]
  std::vector<std::vector<std::vector<ThreadText>>> cells_;  // [column][segment][cell]
};

// Those of a snapshot, made by whoever asks first. Cost then: the threads, and the dead rows.
SnapshotThreads const& threads_of(Snapshot const& snapshot);

}  // namespace hyrecall
