#include "engine/segment/segment.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hyrecall {
namespace {

std::uint64_t next_view_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Segment::Bytes Segment::bytes() const {
  Bytes out{p.cells.bytes(), p.keys.bytes(), 0, 0};
  for (auto const& column : p.attributes) out.attributes += column->bytes();
  if (TextStatistics const* const made = text_statistics_.load(std::memory_order_acquire)) {
    for (auto const& cells : *made) out.statistics += cells.size() * sizeof(CellTextStatistics);
  }
  if (SegmentThreads const* const made = threads_.load(std::memory_order_acquire)) {
    out.statistics += made->table.bytes();
    for (auto const& texts : made->texts) out.statistics += texts.size() * sizeof(ThreadText);
  }
  return out;
}

void LiveSet::kill(std::span<Row const> rows) {
  std::vector<std::shared_ptr<Page>> fresh(pages_.size());  // pages this call has made its own
  for (Row row : rows) {
    std::size_t const at = row / kPageRows;
    if (fresh[at] == nullptr) {
      fresh[at] =
          pages_[at] != nullptr ? std::make_shared<Page>(*pages_[at]) : std::make_shared<Page>();
      if (pages_[at] == nullptr) fresh[at]->fill(~std::uint64_t{0});
      pages_[at] = fresh[at];
    }
    std::uint64_t& word = (*fresh[at])[row % kPageRows / 64];
    std::uint64_t const bit = std::uint64_t{1} << (row % 64);
    require((word & bit) != 0, "rows that live, each once");
    word &= ~bit;
  }
}

SegmentView::SegmentView(std::shared_ptr<Segment const> segment)
    : segment_(std::move(segment)), id_(next_view_id()), live_(segment_->n_rows()) {
  std::size_t const n_arms = segment_->p.lexical.size();
  dead_ = {std::vector<PagedCounts>(n_arms), std::vector<PagedCounts>(n_arms),
           std::vector<PagedCounts>(n_arms)};
}

CellTextStatistics SegmentView::text_statistics(std::size_t arm, std::uint32_t cell) const {
  CellTextStatistics out = segment_->text_statistics()[arm][cell];
  if (n_dead_ > 0) {
    out.n_docs -= dead_.docs[arm].get(cell, 0);
    out.total_length -= dead_.total_length[arm].get(cell, 0);
    out.squared_length -= dead_.total_length[arm].get(cell, 1);
  }
  return out;
}

std::int64_t SegmentView::dead_doc_freq(std::size_t arm, TermId term,
                                        std::span<std::uint32_t const> cells) const {
  if (n_dead_ == 0) return 0;
  return dead_.postings[arm].sum(term, cells);
}

Row SegmentView::find(std::string_view cell, KeyValue const& key) const {
  std::uint32_t const number = segment_->p.cells.find(cell);
  if (number == kNone32) return kNone32;
  Row const row = segment_->p.keys.find(segment_->p.cells, number, key);
  return row != kNone32 && live_[row] ? row : kNone32;
}

std::vector<Row> SegmentView::dead_rows() const {
  std::vector<Row> out;
  for (Row row = 0; row < segment_->n_rows(); ++row) {
    if (!live_[row]) out.push_back(row);
  }
  return out;
}

}  // namespace hyrecall
