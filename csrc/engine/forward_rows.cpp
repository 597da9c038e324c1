#include "engine/forward_rows.hpp"

#include <algorithm>
#include <bit>

namespace hyrecall {
namespace {

constexpr int kDigitBits = 11;             // 2,048 counters stay in the first-level cache
constexpr std::size_t kMostBytes = 3 * 5;  // a token's term, frequency and position

// Counts become first places.
void counts_to_begins(std::vector<std::uint32_t>& counts) {
  std::uint32_t begin = 0;
  for (std::uint32_t& count : counts) {
    std::uint32_t const here = count;
    count = begin;
    begin += here;
  }
}

}  // namespace

// Two stable counting sorts, by term and then by row, touch a token less often than sorting each
// document would; between them every term's documents stand together and can be counted.
void ForwardRows::encode(TokenRows const& rows) {
  n_bytes_ = 0;
  ends_.clear();
  doc_freqs_.clear();
  sort_by_term(rows);
  sort_by_row(rows);
  std::size_t begin = 0;
  for (std::uint32_t const end : rows.ends) {
    write(std::span(entries_).subspan(begin, end - begin), rows.positions.data());
    ends_.push_back(n_bytes_);
    begin = end;
  }
}

void ForwardRows::sort_by_term(TokenRows const& rows) {
  std::size_t const n = rows.terms.size();
  entries_.resize(n);
  other_.resize(n);
  TermId highest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    entries_[i] = {rows.terms[i], static_cast<std::uint32_t>(i)};
    highest = std::max(highest, rows.terms[i]);
  }
  int const width = std::bit_width(highest);
  int const n_digits = (width + kDigitBits - 1) / kDigitBits;
  int const bits = n_digits == 0 ? 0 : (width + n_digits - 1) / n_digits;
  TermId const mask = (TermId{1} << bits) - 1;
  for (int shift = 0; shift < width; shift += bits) {
    counts_.assign(std::size_t{1} << bits, 0);
    for (Entry const& entry : entries_) ++counts_[entry.term >> shift & mask];
    counts_to_begins(counts_);
    for (Entry const& entry : entries_) other_[counts_[entry.term >> shift & mask]++] = entry;
    entries_.swap(other_);
  }
}

void ForwardRows::sort_by_row(TokenRows const& rows) {
  counts_.clear();
  row_of_.resize(rows.terms.size());
  std::uint32_t begin = 0;
  for (std::uint32_t const end : rows.ends) {
    std::fill(row_of_.begin() + begin, row_of_.begin() + end,
              static_cast<std::uint32_t>(counts_.size()));
    counts_.push_back(begin);
    begin = end;
  }
  std::uint32_t last_row = 0;
  for (Entry const& entry : entries_) {
    std::uint32_t const row = row_of_[entry.token];
    if (doc_freqs_.empty() || doc_freqs_.back().term != entry.term)
      doc_freqs_.push_back({entry.term, 1});
    else if (row != last_row)
      ++doc_freqs_.back().n_docs;
    last_row = row;
    other_[counts_[row]++] = entry;
  }
  entries_.swap(other_);
}

void ForwardRows::write(std::span<Entry const> document, std::uint32_t const* positions) {
  std::size_t const most = n_bytes_ + document.size() * kMostBytes;
  if (bytes_.size() < most) bytes_.resize(std::max(most, 2 * bytes_.size()));
  std::uint8_t* to = bytes_.data() + n_bytes_;
  TermId previous = 0;
  for (std::size_t i = 0; i < document.size();) {
    TermId const term = document[i].term;
    std::size_t end = i + 1;
    while (end < document.size() && document[end].term == term) ++end;
    to = put_varint(to, term - previous);
    to = put_varint(to, static_cast<std::uint32_t>(end - i));
    std::uint32_t position = 0;
    for (; i < end; ++i) {
      std::uint32_t const here = positions[document[i].token];
      to = put_varint(to, here - position);
      position = here;
    }
    previous = term;
  }
  n_bytes_ = static_cast<std::size_t>(to - bytes_.data());
}

}  // namespace hyrecall
