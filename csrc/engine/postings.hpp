// A query's leaves on one segment: where each occurs, inside the scope.
#pragma once

#include <cstdint>
#include <memory>
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
  TermId term = kNone32;  // a plain term's number
  PostingList list;       // the column's, or own
  // Those inside the scope; all of an own list are.
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::int64_t doc_freq = 0;  // live documents of the scope that hold the leaf
  std::unique_ptr<OwnPostings const> own;

  std::uint32_t n_in_scope() const { return end - begin; }
  // Of a row in the scope; 0 if it does not hold the leaf.
  std::uint32_t freq_of(Row row) const { return list.freq_of(row); }
};

// expanded: the distinct terms prefixes stood for so far, over all segments; past kPrefixBudget it
// is an error.
LeafPostings find_postings(SegmentView const& view, std::size_t arm, ScopeRows const& scope,
                           Leaf const& leaf, std::set<std::string>& expanded,
                           std::string const& argument);

// How often a phrase occurs, given each term's positions: places of its first term for which every
// other term lies so that the displacements (position - offset) of all span at most slop. With slop
// 0 that is an exact phrase.
std::uint32_t count_phrase(std::span<std::vector<std::uint32_t> const> positions,
                           std::span<std::uint32_t const> offsets, std::uint32_t slop);

}  // namespace hyrecall
