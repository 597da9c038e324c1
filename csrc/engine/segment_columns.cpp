// What a segment computes from its columns, which include its header: whether they fit it, BM25
// statistics by cell, and what deletes take from these.
#include "engine/segment_columns.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "engine/dense/column.hpp"
#include "engine/lexical/column.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {
namespace {

Segment::TextStatistics sum_by_cell(Segment::Parts const& p) {
  Segment::TextStatistics out;
  for (auto const& column : p.lexical) {
    std::vector<CellTextStatistics> sums(p.cells.size());
    for (std::uint32_t cell = 0; cell < sums.size(); ++cell) {
      RowRange const rows = p.cells.rows(cell);
      for (Row row = rows.begin; row < rows.end; ++row) {
        if (!column->has(row)) continue;
        sums[cell].n_docs += 1;
        std::int64_t const length = column->doc_length(row);
        sums[cell].total_length += length;
        sums[cell].squared_length += length * length;
      }
    }
    out.push_back(std::move(sums));
  }
  return out;
}

// Before anything reads a row of them.
Segment::Parts checked(Segment::Parts parts) {
  std::size_t const n_rows = parts.seqs.size();
  require(parts.cells.n_rows() == n_rows, "cells of every row");
  for (auto const& column : parts.lexical)
    require(column->n_rows() == n_rows, "a lexical column as long as the segment");
  for (auto const& column : parts.dense)
    require(column->n_rows() == n_rows, "a dense column as long as the segment");
  for (auto const& column : parts.attributes)
    require(column->n_rows == n_rows, "an attribute column as long as the segment");
  if (parts.threads) {
    bool const is_known = parts.threads->thread < parts.attributes.size() &&
                          parts.threads->place.value_or(0) < parts.attributes.size();
    require(is_known, "threads and places that are attributes");
  }
  return parts;
}

std::uint64_t next_segment_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Segment::Segment(Parts parts)
    : p(checked(std::move(parts))), id_(next_segment_id()), is_checked_(p.late.empty()) {}

void Segment::check_rows() const {
  for (LateBytes const& part : p.late) part.ensure();
  auto const [low, high] = std::minmax_element(p.seqs.begin(), p.seqs.end());
  if (low != p.seqs.end() && (*low < 0 || *high >= p.next_seq)) {
    throw Error(ErrorCode::kCorrupt, p.late.front().checks->path(),
                "expected insertion numbers in [0, " + std::to_string(p.next_seq) + "), got " +
                    std::to_string(*low) + " to " + std::to_string(*high));
  }
  is_checked_.store(true, std::memory_order_release);
}

Segment::TextStatistics const& Segment::text_statistics() const {
  if (TextStatistics const* const made = text_statistics_.load(std::memory_order_acquire))
    return *made;
  check();
  auto fresh = std::make_unique<TextStatistics const>(sum_by_cell(p));
  TextStatistics const* expected = nullptr;
  if (!text_statistics_.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel))
    return *expected;
  return *fresh.release();
}

SegmentThreads const& Segment::threads() const {
  require(has_threads(), "a segment with threads");
  if (SegmentThreads const* const made = threads_.load(std::memory_order_acquire)) return *made;
  check();
  AttributeColumn const* const place =
      p.threads->place ? p.attributes[*p.threads->place].get() : nullptr;
  auto fresh = std::make_unique<SegmentThreads>(SegmentThreads{
      ThreadTable(p.cells, *p.attributes[p.threads->thread], place, p.seqs.span()), {}});
  for (auto const& column : p.lexical) {
    std::vector<ThreadText>& texts = fresh->texts.emplace_back(fresh->table.size());
    for (Row row = 0; row < n_rows(); ++row) {
      std::uint32_t const thread = fresh->table.thread_of(row);
      if (thread == kNone32 || !column->has(row)) continue;
      texts[thread].n_docs += 1;
      texts[thread].total_length += column->doc_length(row);
    }
  }
  SegmentThreads const* expected = nullptr;
  if (!threads_.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel))
    return *expected;
  return *fresh.release();
}

std::vector<LexicalArrays> lexical_arrays(Segment const& segment) {
  std::vector<LexicalArrays> out;
  for (auto const& column : segment.p.lexical) {
    LexicalColumn::Parts const& parts = column->parts();
    out.push_back({parts.doc_lengths.span(), parts.posting_offsets.span(), parts.postings.span(),
                   parts.run_offsets.span(), parts.runs.span(), parts.escape_offsets.span(),
                   parts.escapes.span(), parts.posting_width});
  }
  return out;
}

void check_alike(Snapshot const& snapshot) {
  for (auto const& view : snapshot.segments) {
    Segment::Parts const& one = view->segment().p;
    Segment::Parts const& other = snapshot.segments.front()->segment().p;
    bool const is_alike =
        one.lexical.size() == other.lexical.size() &&
        one.attributes.size() == other.attributes.size() &&
        std::equal(one.dense.begin(), one.dense.end(), other.dense.begin(), other.dense.end(),
                   [](auto const& a, auto const& b) { return a->is_like(*b); });
    require(is_alike, "segments of one schema");
  }
}

SegmentView SegmentView::without(std::span<Row const> rows) const {
  for (Row row : rows) require(row < segment_->n_rows(), "rows of the segment");
  segment_->check();
  SegmentView next(segment_);
  next.live_ = live_;
  next.live_.kill(rows);
  next.n_dead_ = n_dead_ + rows.size();
  for (std::size_t arm = 0; arm < segment_->p.lexical.size(); ++arm) {
    LexicalColumn const& column = *segment_->p.lexical[arm];
    PagedCounts postings = dead_.postings[arm].fork();
    PagedCounts docs = dead_.docs[arm].fork();
    PagedCounts total_length = dead_.total_length[arm].fork();
    for (Row row : rows) {
      if (!column.has(row)) continue;
      std::uint32_t const cell = segment_->p.cells.cell_of(row);
      docs.add(cell, 0, 1);
      std::int64_t const length = column.doc_length(row);
      total_length.add(cell, 0, length);
      total_length.add(cell, 1, length * length);
      for (TermId const term : column.distinct_terms(row)) postings.add(term, cell, 1);
    }
    next.dead_.postings[arm] = std::move(postings);
    next.dead_.docs[arm] = std::move(docs);
    next.dead_.total_length[arm] = std::move(total_length);
  }
  return next;
}

}  // namespace hyrecall
