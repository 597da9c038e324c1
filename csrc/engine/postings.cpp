#include "engine/postings.hpp"

#include <algorithm>
#include <map>

#include "core/error.hpp"

namespace hyrecall {
namespace {

// Calls f(index) for the postings of a rising row list that lie in the scope.
template <typename F>
void for_each_in_scope(std::span<Row const> rows, ScopeRows const& scope, F&& f) {
  auto at = rows.begin();
  for (RowRange const& range : scope.ranges) {
    at = std::lower_bound(at, rows.end(), range.begin);
    for (; at != rows.end() && *at < range.end; ++at)
      f(static_cast<std::size_t>(at - rows.begin()));
    if (at == rows.end()) return;
  }
}

void find_phrase(SegmentView const& view, LexicalColumn const& column, ScopeRows const& scope,
                 Leaf const& leaf, LeafPostings& out) {
  std::vector<TermId> terms;
  for (std::string const& term : leaf.terms) {
    terms.push_back(column.find(term));
    if (terms.back() == kNone32) return;
  }
  // Walk the rarest term's list; the forward view of each of its documents answers for the others.
  TermId const rarest = *std::min_element(terms.begin(), terms.end(), [&](TermId a, TermId b) {
    return column.rows_of(a).size() < column.rows_of(b).size();
  });
  std::vector<std::vector<std::uint32_t>> positions(terms.size());
  std::span<Row const> const rows = column.rows_of(rarest);
  for_each_in_scope(rows, scope, [&](std::size_t i) {
    Row const row = rows[i];
    if (!view.live()[row]) return;
    for (std::size_t t = 0; t < terms.size(); ++t) {
      column.positions(row, terms[t], positions[t]);
      if (positions[t].empty()) return;
    }
    std::uint32_t const freq = count_phrase(positions, leaf.offsets, leaf.slop);
    if (freq == 0) return;
    out.own_rows.push_back(row);
    out.own_freqs.push_back(freq);
  });
}

void find_prefix(SegmentView const& view, LexicalColumn const& column, ScopeRows const& scope,
                 Leaf const& leaf, std::set<std::string>& expanded, std::string const& argument,
                 LeafPostings& out) {
  struct Found {
    std::uint32_t freq = 0;
    std::uint32_t n_terms = 0;
  };
  std::map<Row, Found> found;
  std::vector<TermId> terms;  // that some document of the scope holds
  for (TermId term : column.with_prefix(leaf.terms.front())) {
    std::span<Row const> const rows = column.rows_of(term);
    std::span<std::uint32_t const> const term_freqs = column.freqs_of(term);
    bool present = false;
    for_each_in_scope(rows, scope, [&](std::size_t i) {
      if (!view.live()[rows[i]]) return;
      present = true;
      Found& one = found[rows[i]];
      one.freq += term_freqs[i];
      ++one.n_terms;
    });
    if (!present) continue;
    terms.push_back(term);
    expanded.emplace(column.parts().terms[term]);
    if (expanded.size() > kPrefixBudget) {
      throw Error(ErrorCode::kOption, argument,
                  "expected prefixes that stand for at most " + std::to_string(kPrefixBudget) +
                      " terms of the scope, got more for Prefix('" + leaf.terms.front() + "')");
    }
  }
  std::sort(terms.begin(), terms.end());
  for (auto const& [row, one] : found) {
    out.own_rows.push_back(row);
    // A compound and its first part may both begin so, and are one occurrence.
    out.own_freqs.push_back(one.n_terms == 1 ? one.freq : column.count_places(row, terms));
  }
}

}  // namespace

std::uint32_t LeafPostings::freq_of(Row row) const {
  auto const at = std::lower_bound(rows.begin(), rows.end(), row);
  return at != rows.end() && *at == row ? freqs[static_cast<std::size_t>(at - rows.begin())] : 0;
}

std::int64_t count_live_in_scope(SegmentView const& view, std::size_t arm, ScopeRows const& scope,
                                 TermId term) {
  LexicalColumn const& column = *view.segment().p.lexical[arm];
  std::span<Row const> const rows = column.rows_of(term);
  std::int64_t count = 0;
  auto at = rows.begin();
  for (RowRange const& range : scope.ranges) {
    if (at == rows.end()) break;
    at = std::lower_bound(at, rows.end(), range.begin);
    auto const end = std::lower_bound(at, rows.end(), range.end);
    count += end - at;
    at = end;
  }
  return count - view.dead_doc_freq(arm, term, scope.cells);
}

LeafPostings find_postings(SegmentView const& view, std::size_t arm, ScopeRows const& scope,
                           Leaf const& leaf, std::set<std::string>& expanded,
                           std::string const& argument) {
  LexicalColumn const& column = *view.segment().p.lexical[arm];
  LeafPostings out;
  if (scope.ranges.empty()) return out;
  if (leaf.kind == Leaf::Kind::kTerm) {
    out.term = column.find(leaf.terms.front());
    if (out.term == kNone32) return out;
    out.rows = column.rows_of(out.term);
    out.freqs = column.freqs_of(out.term);
    out.doc_freq = count_live_in_scope(view, arm, scope, out.term);
    return out;
  }
  if (leaf.kind == Leaf::Kind::kPhrase) {
    find_phrase(view, column, scope, leaf, out);
  } else {
    find_prefix(view, column, scope, leaf, expanded, argument, out);
  }
  out.rows = out.own_rows;
  out.freqs = out.own_freqs;
  out.doc_freq = static_cast<std::int64_t>(out.own_rows.size());
  return out;
}

std::uint32_t count_phrase(std::span<std::vector<std::uint32_t> const> positions,
                           std::span<std::uint32_t const> offsets, std::uint32_t slop) {
  auto const fits = [&](std::int64_t low) {  // every term has a displacement in [low, low + slop]
    for (std::size_t t = 1; t < positions.size(); ++t) {
      auto const first = std::partition_point(
          positions[t].begin(), positions[t].end(),
          [&](std::uint32_t p) { return static_cast<std::int64_t>(p) - offsets[t] < low; });
      if (first == positions[t].end() ||
          static_cast<std::int64_t>(*first) - offsets[t] > low + slop)
        return false;
    }
    return true;
  };
  std::uint32_t count = 0;
  for (std::uint32_t place : positions[0]) {
    for (std::int64_t low = static_cast<std::int64_t>(place) - slop; low <= place; ++low) {
      if (!fits(low)) continue;
      ++count;
      break;
    }
  }
  return count;
}

}  // namespace hyrecall
