#include "engine/lexical/impact_tables.hpp"

#include <algorithm>

#include "engine/lexical/column.hpp"
#include "kernels/cpu/isa.hpp"

namespace hyrecall {
namespace {

// With fewer postings, making a leaf's table costs more than it saves: it touches 8 KiB of fresh
// memory. With 10,000 leaves of 100 postings, tables took four fifths of the time.
constexpr std::size_t kLeastPostings = 256;

}  // namespace

void ImpactTables::make(Bm25Query const& query, LexicalColumn const& column,
                        std::span<LeafCursor> leaves) {
  has_norms_ = false;
  std::uint32_t const low = column.min_length();
  std::uint32_t const high =
      std::min(column.max_length(), PostingFormat(column.parts().posting_width).max_length());
  if (high < low) return;
  std::size_t const n_lengths = high - low + 1;
  std::size_t n_postings = 0;
  for (LeafCursor const& one : leaves) n_postings += one.postings->n_in_scope();
  if (n_postings < n_lengths) return;
  if (norms_of_ != query.norm_params() || norms_from_ != low || norms_.size() < n_lengths) {
    norms_.resize(n_lengths);
    for (std::uint32_t length = low; length <= high; ++length)
      norms_[length - low] = query.length_norm(length);
    norms_from_ = low;
    norms_of_ = query.norm_params();
  }
  has_norms_ = true;
  if (column.parts().posting_width != PostingFormat::kCompact) return;
  auto const has_table = [&](LeafCursor const& one) {
    return one.postings->n_in_scope() >= std::max(n_lengths, kLeastPostings);
  };
  auto const n_tables =
      static_cast<std::size_t>(std::count_if(leaves.begin(), leaves.end(), has_table));
  tables_.resize(std::max(tables_.size(), n_tables * cpu::kCodes));
  float* table = tables_.data();
  for (LeafCursor& one : leaves) {
    if (!has_table(one)) continue;
    constexpr PostingFormat kFormat(PostingFormat::kCompact);
    query.with_impact(one.leaf, [&](auto impact) {
      for (std::uint32_t freq = 0; freq < kFormat.escape(); ++freq) {
        float* const row = table + (freq << kFormat.length_bits()) + low;
        for (std::size_t j = 0; j < n_lengths; ++j)
          row[j] = impact(static_cast<float>(freq + 1), norms_[j]);
      }
    });
    table[kFormat.escape() << kFormat.length_bits()] = 0.0f;  // the list's escapes add its impact
    one.table = table;
    table += cpu::kCodes;
  }
}

}  // namespace hyrecall
