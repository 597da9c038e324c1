#include "engine/lexical/column.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "core/pages.hpp"
#include "engine/lexical/check.hpp"

namespace hyrecall {

namespace {

template <typename T>
void own(Buffer<T>& buffer) {
  buffer = std::vector<T>(buffer.begin(), buffer.end());
}

}  // namespace

void LexicalColumn::Parts::own_directories() {
  own(terms.offsets);
  own(terms.bytes);
  own(posting_offsets);
  own(run_offsets);
  own(runs);
  own(escape_offsets);
  own(escapes);
}

LexicalColumn::LexicalColumn(Parts parts) : given_(std::move(parts)) {
  slots_ = StringSlots(given_.terms);
  find_lengths();
}

LexicalColumn::LexicalColumn(Parts parts, Buffer<std::uint64_t> forward_offsets, bool is_mapped)
    : given_(std::move(parts)),
      is_checked_(false),
      late_offsets_(std::move(forward_offsets)),
      is_mapped_(is_mapped) {}

void LexicalColumn::find_lengths() {
  min_length_ = kNoText;
  for (std::uint32_t length : given_.doc_lengths) {
    if (length == kNoText) continue;
    min_length_ = std::min(min_length_, length);
    max_length_ = std::max(max_length_, length);
  }
  min_length_ = std::min(min_length_, max_length_);
}

void LexicalColumn::check(int threads) {
  if (is_checked()) return;
  auto made = std::make_unique<Parts>(given_);
  if (is_mapped_) made->own_directories();  // before they are checked
  check_cuts(*made, late_offsets_.span());
  made->forward_offsets = NarrowOffsets(late_offsets_.span());
  check_lexical(*made, threads);
  find_lengths();
  slots_ = StringSlots(made->terms);
  late_offsets_ = {};
  checked_ = std::move(made);
  parts_.store(checked_.get(), std::memory_order_release);
  is_checked_.store(true, std::memory_order_release);
}

void LexicalColumn::read_apart() {
  require_checked();
  hyrecall::read_apart(parts().postings.data(), parts().postings.bytes());
  is_apart_.store(true, std::memory_order_relaxed);
}

std::span<TermId const> LexicalColumn::with_prefix(std::string_view prefix) const {
  require_checked();
  std::vector<TermId> const& sorted = terms_in_order();
  auto const begin = std::partition_point(sorted.begin(), sorted.end(),
                                          [&](TermId t) { return parts().terms[t] < prefix; });
  auto const end = std::partition_point(
      begin, sorted.end(), [&](TermId t) { return parts().terms[t].starts_with(prefix); });
  return {begin, end};
}

std::vector<TermId> const& LexicalColumn::terms_in_order() const {
  std::vector<TermId> const* held = sorted_.load(std::memory_order_acquire);
  if (held != nullptr) return *held;
  // Sorted without a lock: two threads may both do it, and the first result stays.
  auto made = std::make_unique<std::vector<TermId>>(n_terms());
  std::iota(made->begin(), made->end(), TermId{0});
  std::sort(made->begin(), made->end(),
            [this](TermId a, TermId b) { return parts().terms[a] < parts().terms[b]; });
  if (sorted_.compare_exchange_strong(held, made.get(), std::memory_order_acq_rel))
    return *made.release();
  return *held;
}

PostingList LexicalColumn::list_of(TermId term) const {
  require_checked();
  Parts const& p = parts();
  std::uint64_t const begin = p.posting_offsets[term];
  return {PostingFormat(p.posting_width),
          p.postings.data() + begin * p.posting_width,
          static_cast<std::uint32_t>(p.posting_offsets[term + 1] - begin),
          p.runs.span().subspan(p.run_offsets[term], p.run_offsets[term + 1] - p.run_offsets[term]),
          p.escapes.span().subspan(p.escape_offsets[term],
                                   p.escape_offsets[term + 1] - p.escape_offsets[term]),
          is_apart_.load(std::memory_order_relaxed)};
}

std::vector<TermId> LexicalColumn::distinct_terms(Row row) const {
  std::vector<TermId> out;
  for_each_token(row, [&](TermId term, std::uint32_t) { out.push_back(term); });
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::uint32_t LexicalColumn::term_freq(Row row, TermId wanted) const {
  std::uint32_t found = 0;
  for_each_token(row, [&](TermId term, std::uint32_t) { found += term == wanted ? 1 : 0; });
  return found;
}

void LexicalColumn::positions(Row row, TermId wanted, std::vector<std::uint32_t>& out) const {
  out.clear();
  for_each_token(row, [&](TermId term, std::uint32_t position) {
    if (term == wanted) out.push_back(position);
  });
}

void LexicalColumn::places(Row row, std::span<TermId const> terms,
                           std::vector<std::uint32_t>& out) const {
  out.clear();
  for_each_token(row, [&](TermId term, std::uint32_t position) {
    bool const is_same = !out.empty() && out.back() == position;
    if (!is_same && std::binary_search(terms.begin(), terms.end(), term)) out.push_back(position);
  });
}

std::size_t LexicalColumn::bytes() const {
  Parts const& p = parts();
  return p.doc_lengths.bytes() + p.terms.offsets.bytes() + p.terms.bytes.bytes() +
         p.posting_offsets.bytes() + p.postings.bytes() + p.run_offsets.bytes() + p.runs.bytes() +
         p.escape_offsets.bytes() + p.escapes.bytes() + p.forward_offsets.bytes() +
         p.forward_bytes.bytes() + slots_.bytes() + frequent_.bytes() +
         (sorted_.load(std::memory_order_acquire) != nullptr ? n_terms() * sizeof(TermId) : 0);
}

std::vector<std::uint8_t> rows_with_text(
    std::span<std::shared_ptr<LexicalColumn const> const> columns,
    std::span<std::uint32_t const> source, std::span<Row const> row) {
  require(source.size() == row.size(), "a column for every row");
  std::vector<std::uint8_t> out(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    require(source[i] < columns.size() && row[i] < columns[source[i]]->n_rows(),
            "a row of the columns");
    out[i] = columns[source[i]]->has(row[i]) ? 1 : 0;
  }
  return out;
}

}  // namespace hyrecall
