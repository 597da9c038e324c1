#include "engine/evidence/snapshot_threads.hpp"

#include <algorithm>
#include <numeric>

#include "core/hash.hpp"
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

// The own thread of a segment that has a number, or kNone32.
std::uint32_t own_thread(NumberedThreads const& held, std::uint32_t number) {
  if (number >= held.end) return kNone32;
  if (number >= held.first) {
    std::uint32_t const at = number - held.first;
    return held.fresh.empty() ? at : held.fresh[at];
  }
  auto const found = std::lower_bound(held.repeated.begin(), held.repeated.end(), number,
                                      [](NumberedThreads::Repeated const& one,
                                         std::uint32_t wanted) { return one.number < wanted; });
  return found != held.repeated.end() && found->number == number ? found->own : kNone32;
}

}  // namespace

ThreadFreqs::~ThreadFreqs() {
  for (auto const& entry : entries_) delete entry.load(std::memory_order_acquire);
}

std::optional<std::int64_t> ThreadFreqs::find(std::string_view key) const {
  std::uint64_t const hash = hash_bytes(key);
  for (std::size_t i = 0; i < kTries; ++i) {
    Entry const* const entry = entries_[(hash + i) % kMost].load(std::memory_order_acquire);
    if (entry == nullptr) return std::nullopt;
    if (entry->key == key) return entry->freq;
  }
  return std::nullopt;
}

void ThreadFreqs::keep(std::string_view key, std::int64_t freq) {
  auto fresh = std::make_unique<Entry const>(Entry{std::string(key), freq});
  std::uint64_t const hash = hash_bytes(key);
  for (std::size_t i = 0; i < kTries; ++i) {
    Entry const* expected = nullptr;
    if (entries_[(hash + i) % kMost].compare_exchange_strong(expected, fresh.get(),
                                                             std::memory_order_acq_rel)) {
      static_cast<void>(fresh.release());
      return;
    }
    if (expected->key == key) return;
  }
}

SnapshotThreads::SnapshotThreads(Snapshot const& snapshot, ThreadRun const& before) {
  for (auto const& view : snapshot.segments) {
    segments_.push_back(&view->segment());
    tables_.push_back(&view->segment().threads().table);
  }
  order_ = by_size(tables_);
  held_.resize(segments_.size());
  bool same_segments = true, same_views = true;  // as before, so far
  for (std::size_t at = 0; at < order_.size(); ++at) {
    SegmentView const& view = *snapshot.segments[order_[at]];
    NumberedThreads const* const old = at < before.size() ? before[at].get() : nullptr;
    same_segments = same_segments && old != nullptr && old->segment_id == view.segment().id();
    same_views = same_views && same_segments && old->view_id == view.id();
    if (same_views) {
      run_.push_back(before[at]);
    } else {
      auto made = std::make_shared<NumberedThreads>();
      if (same_segments) {
        made->first = old->first;
        made->end = old->end;
        made->numbers = old->numbers;
        made->fresh = old->fresh;
        made->repeated = old->repeated;
      } else {
        number_threads(snapshot, at, *made);
      }
      made->segment_id = view.segment().id();
      made->view_id = view.id();
      count_texts(snapshot, at, *made);
      run_.push_back(std::move(made));
    }
    held_[order_[at]] = run_.back().get();
  }
}

// Numbers the threads of a segment; those of the segments before it in the order are numbered.
void SnapshotThreads::number_threads(Snapshot const& snapshot, std::size_t at,
                                     NumberedThreads& out) const {
  std::uint32_t const s = order_[at];
  ThreadTable const& table = *tables_[s];
  CellDirectory const& cells = segments_[s]->p.cells;
  out.first = at == 0 ? 0 : run_.back()->end;
  out.end = out.first;
  if (at == 0) {
    out.end = static_cast<std::uint32_t>(table.size());
    return;
  }
  out.numbers.resize(table.size());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> others;  // segment, its cell
  for (std::uint32_t cell = 0; cell < cells.size(); ++cell) {
    std::uint32_t const begin = table.begin_of_cell(cell), end = table.begin_of_cell(cell + 1);
    if (begin == end) continue;
    others.clear();
    for (std::size_t before = 0; before < at; ++before) {
      std::uint32_t const other = order_[before];
      std::uint32_t const same = snapshot.segments[other]->segment().p.cells.find(cells.key(cell));
      if (same != kNone32) others.emplace_back(other, same);
    }
    for (std::uint32_t thread = begin; thread < end; ++thread) {
      std::uint32_t number = kNone32;
      for (auto const& [other, same] : others) {
        std::uint32_t const found = tables_[other]->find(same, table.value(thread));
        if (found == kNone32) continue;
        number = held_[other]->number(found);
        break;
      }
      if (number == kNone32) {
        number = out.end++;
        out.fresh.push_back(thread);
      } else {
        out.repeated.push_back({number, thread});
      }
      out.numbers[thread] = number;
    }
  }
  std::sort(out.repeated.begin(), out.repeated.end(),
            [](auto const& a, auto const& b) { return a.number < b.number; });
}

// Counts what lives of the texts of a segment's threads.
void SnapshotThreads::count_texts(Snapshot const& snapshot, std::size_t at,
                                  NumberedThreads& out) const {
  SegmentView const& view = *snapshot.segments[order_[at]];
  Segment const& segment = view.segment();
  ThreadTable const& table = *tables_[order_[at]];
  std::size_t const n_cells = segment.p.cells.size();
  if (view.n_dead() > 0) out.texts = segment.threads().texts;
  for (std::size_t column = 0; column < segment.p.lexical.size(); ++column) {
    LexicalColumn const& lexical = *segment.p.lexical[column];
    if (view.n_dead() > 0) {
      std::vector<ThreadText>& texts = out.texts[column];
      view.live().for_each_dead(static_cast<Row>(segment.n_rows()), [&](Row row) {
        std::uint32_t const thread = table.thread_of(row);
        if (thread == kNone32 || !lexical.has(row)) return;
        texts[thread].n_docs -= 1;
        texts[thread].total_length -= lexical.doc_length(row);
      });
    }
    std::vector<ThreadText> const& texts =
        out.texts.empty() ? segment.threads().texts[column] : out.texts[column];
    std::vector<ThreadText>& cells = out.cells.emplace_back(n_cells);
    for (std::uint32_t cell = 0; cell < n_cells; ++cell) {
      for (std::uint32_t thread = table.begin_of_cell(cell); thread < table.begin_of_cell(cell + 1);
           ++thread) {
        if (texts[thread].n_docs == 0) continue;
        cells[cell].n_docs += 1;
        cells[cell].total_length += texts[thread].total_length;
      }
    }
    std::uint32_t cell = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> twice;  // own thread, number
    for (NumberedThreads::Repeated const& one : out.repeated)
      if (texts[one.own].n_docs > 0) twice.emplace_back(one.own, one.number);
    std::sort(twice.begin(), twice.end());
    for (auto const& [own, number] : twice) {
      while (table.begin_of_cell(cell + 1) <= own) ++cell;
      for (std::size_t before = 0; before < at; ++before) {
        std::uint32_t const other = order_[before];
        std::uint32_t const found = own_thread(*held_[other], number);
        if (found == kNone32 || this->texts(column, other)[found].n_docs == 0) continue;
        cells[cell].n_docs -= 1;
        break;
      }
    }
  }
}

std::vector<ThreadText> const& SnapshotThreads::texts(std::size_t column,
                                                      std::uint32_t segment) const {
  NumberedThreads const& held = *held_[segment];
  return held.texts.empty() ? segments_[segment]->threads().texts[column] : held.texts[column];
}

void SnapshotThreads::parts(std::uint32_t thread, std::vector<Part>& out) const {
  out.clear();
  for (std::uint32_t const segment : order_) {
    NumberedThreads const& held = *held_[segment];
    if (held.end <= thread || (thread < held.first && held.repeated.empty())) continue;
    std::uint32_t const own = own_thread(held, thread);
    if (own != kNone32) out.push_back({segment, own});
  }
}

ThreadText SnapshotThreads::text(std::size_t column, std::span<Part const> parts) const {
  ThreadText sum;
  for (Part const& part : parts) {
    ThreadText const& one = texts(column, part.segment)[part.thread];
    sum.n_docs += one.n_docs;
    sum.total_length += one.total_length;
  }
  return sum;
}

ThreadsSlot::~ThreadsSlot() {
  delete made.load(std::memory_order_acquire);
}

ThreadRun known_threads(Snapshot const& snapshot) {
  SnapshotThreads const* const made = snapshot.threads->made.load(std::memory_order_acquire);
  return made == nullptr ? snapshot.threads->known : made->run();
}

SnapshotThreads const& threads_of(Snapshot const& snapshot) {
  std::atomic<SnapshotThreads const*>& slot = snapshot.threads->made;
  if (SnapshotThreads const* const made = slot.load(std::memory_order_acquire)) return *made;
  auto fresh = std::make_unique<SnapshotThreads const>(snapshot, snapshot.threads->known);
  SnapshotThreads const* expected = nullptr;
  if (!slot.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel))
    return *expected;
  return *fresh.release();
}

}  // namespace hyrecall
