#include "engine/lexical_column.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <numeric>

#include "core/fork_mutex.hpp"
#include "core/hash.hpp"

namespace hyrecall {

LexicalColumn::LexicalColumn(Parts parts) : parts_(std::move(parts)) {
  std::size_t const n = n_terms();
  std::vector<TermId> slots(std::bit_ceil(n + n / 2 + 1), kNone32);
  std::size_t const mask = slots.size() - 1;
  for (TermId term = 0; term < n; ++term) {
    std::size_t at = hash_bytes(parts_.terms[term]) & mask;
    while (slots[at] != kNone32) at = (at + 1) & mask;
    slots[at] = term;
  }
  slots_ = std::move(slots);
}

TermId LexicalColumn::find(std::string_view term) const {
  std::size_t const mask = slots_.size() - 1;
  for (std::size_t at = hash_bytes(term) & mask; slots_[at] != kNone32; at = (at + 1) & mask) {
    if (parts_.terms[slots_[at]] == term) return slots_[at];
  }
  return kNone32;
}

std::span<TermId const> LexicalColumn::with_prefix(std::string_view prefix) const {
  {
    std::lock_guard const lock(fork_mutex<LexicalColumn>());
    if (sorted_.size() < n_terms()) {
      sorted_.resize(n_terms());
      std::iota(sorted_.begin(), sorted_.end(), TermId{0});
      std::sort(sorted_.begin(), sorted_.end(),
                [this](TermId a, TermId b) { return parts_.terms[a] < parts_.terms[b]; });
    }
  }
  auto const begin = std::partition_point(sorted_.begin(), sorted_.end(),
                                          [&](TermId t) { return parts_.terms[t] < prefix; });
  auto const end = std::partition_point(
      begin, sorted_.end(), [&](TermId t) { return parts_.terms[t].starts_with(prefix); });
  return {begin, end};
}

std::span<Row const> LexicalColumn::rows_of(TermId term) const {
  std::uint64_t const begin = parts_.posting_offsets[term];
  return {parts_.posting_rows.data() + begin, parts_.posting_offsets[term + 1] - begin};
}

std::span<std::uint32_t const> LexicalColumn::freqs_of(TermId term) const {
  std::uint64_t const begin = parts_.posting_offsets[term];
  return {parts_.posting_freqs.data() + begin, parts_.posting_offsets[term + 1] - begin};
}

std::pair<std::size_t, std::size_t> LexicalColumn::postings_in(TermId term, RowRange range) const {
  std::span<Row const> const rows = rows_of(term);
  auto const begin = std::lower_bound(rows.begin(), rows.end(), range.begin);
  auto const end = std::lower_bound(begin, rows.end(), range.end);
  return {begin - rows.begin(), end - rows.begin()};
}

std::uint32_t LexicalColumn::term_freq(Row row, TermId wanted) const {
  std::uint32_t found = 0;
  for_each_term(row, [&](TermId term, std::uint32_t freq, std::uint8_t const*) {
    if (term == wanted) found = freq;
  });
  return found;
}

void LexicalColumn::positions(Row row, TermId wanted, std::vector<std::uint32_t>& out) const {
  out.clear();
  for_each_term(row, [&](TermId term, std::uint32_t freq, std::uint8_t const* at) {
    if (term != wanted) return;
    std::uint32_t position = 0;
    for (std::uint32_t i = 0; i < freq; ++i) out.push_back(position += get_varint(at));
  });
}

std::size_t LexicalColumn::bytes() const {
  Parts const& p = parts_;
  return p.doc_lengths.bytes() + p.terms.offsets.bytes() + p.terms.bytes.bytes() +
         p.posting_offsets.bytes() + p.posting_rows.bytes() + p.posting_freqs.bytes() +
         p.forward_offsets.bytes() + p.forward_bytes.bytes() + p.block_offsets.bytes() +
         p.block_begins.bytes() + p.frontiers.bytes() + slots_.bytes();
}

}  // namespace hyrecall
