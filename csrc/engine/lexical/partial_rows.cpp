#include "engine/lexical/partial_rows.hpp"

#include <algorithm>

#include "kernels/cpu/scores.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kTokensASearch = 64;  // reading so many tokens costs one search
constexpr std::size_t kMostSearches = 64;   // lists that are searched to score one row
constexpr std::size_t kBytesAhead = 8;      // rows between a prefetch and its use
constexpr std::size_t kLine = 64;

}  // namespace

bool PartialRows::begin(Segment const& segment, std::size_t column, Bm25Query const& query,
                        std::span<LeafPostings const> postings, std::span<LeafCursor const> leaves,
                        std::span<float const> greatest) {
  segment_ = &segment;
  number_ = column;
  column_ = segment.p.lexical[column].get();
  query_ = &query;
  postings_ = postings;
  tables_.assign(postings.size(), nullptr);
  for (LeafCursor const& one : leaves) tables_[one.leaf] = one.table;
  terms_.assign(postings.size(), kNone32);
  has_terms_alone_ = true;
  for (std::size_t leaf = 0; leaf < postings.size(); ++leaf) {
    if (postings[leaf].begin == postings[leaf].end) continue;
    terms_[leaf] = postings[leaf].term;
    has_terms_alone_ &= terms_[leaf] != kNone32;
  }
  has_terms_alone_ = has_terms_alone_ && counts_.begin(*column_, terms_);
  if (!has_terms_alone_ && leaves.size() > kMostSearches) return false;
  // A document that holds a term has a length of at least 1.
  float const norm = query.length_norm(std::max(column_->min_length(), 1u));
  bounds_.clear();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    Bound& bound = bounds_.emplace_back(Bound{nullptr, {0.0f, 0.0f, 0.0f, greatest[i]}});
    TermId const term = leaves[i].postings->term;
    if (term == kNone32) continue;
    bound.bits = column_->frequencies_of(term);
    for (std::uint32_t freq = 1; freq < FrequencyBits::kMost; ++freq) {
      bound.impacts[freq] =
          query.impact(leaves[i].leaf, static_cast<float>(freq), norm) * kBoundSlack;
    }
  }
  return true;
}

std::size_t PartialRows::narrow(SkippedLeaves const& skipped) {
  std::size_t n_asked = 0;
  for (std::size_t place = 0; place < bounds_.size(); ++place) {
    if (!skipped.skips(place)) continue;
    Bound const& bound = bounds_[place];
    if (bound.bits == nullptr) {
      for (float& sum : sums_) sum += bound.impacts.back();
      continue;
    }
    n_asked += rows_.size();
    for (std::size_t i = 0; i < rows_.size(); ++i)
      sums_[i] += bound.impacts[(*bound.bits)[rows_[i]]];
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows_[kept] = rows_[i];
    kept += sums_[i] >= skipped.full_cut() ? 1 : 0;
  }
  rows_.resize(kept);
  return n_asked;
}

void PartialRows::finish() {
  scores_.resize(rows_.size());
  for (std::size_t i = 0; i < std::min(rows_.size(), kBytesAhead); ++i) prefetch(i);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (i + kBytesAhead < rows_.size()) prefetch(i + kBytesAhead);
    scores_[i] = score(rows_[i]);
  }
}

void PartialRows::prefetch(std::size_t i) const {
  LexicalColumn::Parts const& parts = column_->parts();
  std::uint64_t const begin = parts.forward_offsets[rows_[i]];
  std::uint64_t const end = parts.forward_offsets[rows_[i] + 1];
  for (std::uint64_t at = begin; at < std::min(end, begin + 4 * kLine); at += kLine)
    __builtin_prefetch(parts.forward_bytes.data() + at);
}

float PartialRows::score(Row row) {
  std::uint32_t const length = column_->doc_length(row);
  if (!has_terms_alone_ || length > kTokensASearch * postings_.size())
    return score_lexical(*segment_, number_, *query_, postings_, row);
  std::span<std::uint32_t const> const freqs = counts_.count(row);
  constexpr PostingFormat kFormat(PostingFormat::kCompact);
  bool const has_code = length <= kFormat.max_length();
  float const norm = query_->length_norm(length);
  float score = 0.0f;
  for (std::size_t leaf = 0; leaf < freqs.size(); ++leaf) {
    std::uint32_t const freq = freqs[leaf];
    float impact = 0.0f;  // of an absent leaf: adding it changes no bit
    if (has_code && tables_[leaf] != nullptr && freq <= kFormat.escape()) {
      std::uint32_t const code = (std::max(freq, 1u) - 1) << kFormat.length_bits() | length;
      impact = freq == 0 ? 0.0f : tables_[leaf][code];
    } else if (freq > 0) {
      impact = query_->impact(leaf, static_cast<float>(freq), norm);
    }
    score += impact;
  }
  return score;
}

}  // namespace hyrecall
