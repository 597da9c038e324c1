// A query's leaves on one segment: where each occurs, inside the scope.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/selection.hpp"
#include "engine/text_query.hpp"

namespace hyrecall {

// How many terms of the authorised cells a prefix may stand for.
inline constexpr std::size_t kPrefixBudget = 1024;

struct LeafPostings {
  LeafPostings() = default;
  LeafPostings(LeafPostings&&) =
      default;  // the spans may point into own_rows: moves keep them, copies would not
  LeafPostings& operator=(LeafPostings&&) = default;

  TermId term = kNone32;  // a plain term's number: rows and freqs are the column's own lists
  std::span<Row const> rows;
  std::span<std::uint32_t const> freqs;
  std::int64_t doc_freq = 0;  // live documents of the scope that hold the leaf
  // A phrase's or prefix's own lists: live rows of the scope only.
  std::vector<Row> own_rows;
  std::vector<std::uint32_t> own_freqs;

  std::uint32_t freq_of(Row row) const;  // 0 if the row does not hold the leaf
};

// expanded: the distinct terms prefixes stood for so far, over all segments; past kPrefixBudget it
// is an error.
LeafPostings find_postings(SegmentView const& view, std::size_t arm, ScopeRows const& scope,
                           Leaf const& leaf, std::set<std::string>& expanded,
                           std::string const& argument);

// Documents of the scope that hold the term: authorised, live, whatever the ad-hoc filter.
std::int64_t count_live_in_scope(SegmentView const& view, std::size_t arm, ScopeRows const& scope,
                                 TermId term);

// How often a phrase occurs, given each term's positions: places of its first term for which every
// other term lies so that the displacements (position - offset) of all span at most slop. With slop
// 0 that is an exact phrase.
std::uint32_t count_phrase(std::span<std::vector<std::uint32_t> const> positions,
                           std::span<std::uint32_t const> offsets, std::uint32_t slop);

}  // namespace hyrecall
