#include "engine/evidence/snapshot_threads.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "engine/lexical/column.hpp"

namespace hyrecall {
namespace {

// The segments, those with the most threads first: the others are then searched in few.
std::vector<std::uint32_t> by_size(std::span<ThreadTable const* const> tables) {
  std::vector<std::uint32_t> out(tables.size());
  std::iota(out.begin(), out.end(), 0u);
  std::stable_sort(out.begin(), out.end(), [&](std::uint32_t a, std::uint32_t b) {
    return tables[a]->size() > tables[b]->size();
  });
  return out;
}

}  // namespace

SnapshotThreads::SnapshotThreads(Snapshot const& snapshot) {
  std::size_t const n_segments = snapshot.segments.size();
  for (auto const& view : snapshot.segments) tables_.push_back(&view->segment().threads().table);
  numbers_.resize(n_segments);
  std::vector<std::uint32_t> const order = by_size(tables_);
  std::vector<std::uint32_t> cell_of;  // [thread] in the segment that counts it
  for (std::size_t at = 0; at < n_segments; ++at) {
    std::uint32_t const s = order[at];
    ThreadTable const& table = *tables_[s];
    CellDirectory const& cells = snapshot.segments[s]->segment().p.cells;
    numbers_[s].resize(table.size());
    for (std::uint32_t cell = 0; cell < cells.size(); ++cell) {
      std::uint32_t const begin = table.begin_of_cell(cell), end = table.begin_of_cell(cell + 1);
      if (begin == end) continue;
      std::vector<std::pair<std::uint32_t, std::uint32_t>> others;  // segment, its cell
      for (std::size_t before = 0; before < at; ++before) {
        std::uint32_t const other = order[before];
        std::uint32_t const same =
            snapshot.segments[other]->segment().p.cells.find(cells.key(cell));
        if (same != kNone32) others.emplace_back(other, same);
      }
      for (std::uint32_t thread = begin; thread < end; ++thread) {
        std::uint32_t number = kNone32;
        for (auto const& [other, same] : others) {
          std::uint32_t const found = tables_[other]->find(same, table.value(thread));
          if (found == kNone32) continue;
          number = numbers_[other][found];
          break;
        }
        if (number == kNone32) {
          number = static_cast<std::uint32_t>(parts_.size());
          parts_.emplace_back();
          cell_of.push_back(cell);
        }
        numbers_[s][thread] = number;
        parts_[number].push_back({s, thread});
      }
    }
  }
  std::size_t const n_columns =
      n_segments == 0 ? 0 : snapshot.segments.front()->segment().p.lexical.size();
  for (std::size_t column = 0; column < n_columns; ++column) {
    std::vector<ThreadText>& texts = texts_.emplace_back(size());
    for (std::uint32_t s = 0; s < n_segments; ++s) {
      SegmentView const& view = *snapshot.segments[s];
      std::vector<ThreadText> const& own = view.segment().threads().texts[column];
      for (std::size_t thread = 0; thread < own.size(); ++thread) {
        texts[numbers_[s][thread]].n_docs += own[thread].n_docs;
        texts[numbers_[s][thread]].total_length += own[thread].total_length;
      }
      LexicalColumn const& lexical = *view.segment().p.lexical[column];
      view.live().for_each_dead(static_cast<Row>(view.segment().n_rows()), [&](Row row) {
        std::uint32_t const thread = tables_[s]->thread_of(row);
        if (thread == kNone32 || !lexical.has(row)) return;
        texts[numbers_[s][thread]].n_docs -= 1;
        texts[numbers_[s][thread]].total_length -= lexical.doc_length(row);
      });
    }
    auto& cells = cells_.emplace_back();
    for (auto const& view : snapshot.segments) cells.emplace_back(view->segment().p.cells.size());
    for (std::uint32_t thread = 0; thread < size(); ++thread) {
      if (texts[thread].n_docs == 0) continue;
      ThreadText& sum = cells[parts_[thread].front().segment][cell_of[thread]];
      sum.n_docs += 1;
      sum.total_length += texts[thread].total_length;
    }
  }
}

ThreadsSlot::~ThreadsSlot() {
  delete made.load(std::memory_order_acquire);
}

SnapshotThreads const& threads_of(Snapshot const& snapshot) {
  std::atomic<SnapshotThreads const*>& slot = snapshot.threads->made;
  if (SnapshotThreads const* const made = slot.load(std::memory_order_acquire)) return *made;
  auto fresh = std::make_unique<SnapshotThreads const>(snapshot);
  SnapshotThreads const* expected = nullptr;
  if (!slot.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel))
    return *expected;
  return *fresh.release();
}

}  // namespace hyrecall
