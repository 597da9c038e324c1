#include "engine/postings.hpp"

#include <algorithm>
#include <map>

#include "core/error.hpp"

namespace hyrecall {
namespace {

// A term's postings inside a scope of several ranges. Where those are many, each posting is met
// once, however many they are.
OwnPostings gather_in_scope(PostingList const& list, ScopeRows const& scope) {
  OwnPostings own(list.format);
  auto range = scope.ranges.begin();
  auto bits = scope.bits.begin();
  for (std::size_t run = 0; run < list.runs.size(); ++run) {
    std::uint32_t const tile = list.runs[run].tile;
    std::uint32_t const end = list.run_end(run);
    std::uint32_t at = list.runs[run].begin;
    Row const first = tile * kDocTileRows;
    bits = std::partition_point(bits, scope.bits.end(), [&](auto& b) { return b.tile < tile; });
    if (bits != scope.bits.end() && bits->tile == tile) {
      own.append_selected(list, tile, at, end, bits->words.data());
      continue;
    }
    range = std::partition_point(range, scope.ranges.end(),
                                 [&](RowRange const& r) { return r.end <= first; });
    for (auto r = range; r != scope.ranges.end() && r->begin < first + kDocTileRows; ++r) {
      if (r->begin > first) at = list.locate(at, end, r->begin - first);
      std::uint32_t const stop =
          r->end - first < kDocTileRows ? list.locate(at, end, r->end - first) : end;
      own.append_run(list, tile, at, stop);
      at = stop;
    }
  }
  for (PostingEscape const& escape : list.escapes) {
    if (scope.contains(escape.row)) own.append_escape(escape);
  }
  return own;
}

// Where a leaf that stands for no plain term occurs.
void keep_own(OwnPostings own, LeafPostings& out) {
  out.own = std::make_unique<OwnPostings const>(std::move(own));
  out.list = out.own->list();
  out.begin = 0;
  out.end = out.list.size;
}

void find_term(SegmentView const& view, std::size_t arm, LexicalColumn const& column,
               ScopeRows const& scope, std::string const& term, LeafPostings& out) {
  out.term = column.find(term);
  if (out.term == kNone32) return;
  out.list = column.list_of(out.term);
  if (scope.ranges.size() == 1) {
    RowRange const range = scope.ranges.front();
    out.begin = range.begin == 0 ? 0 : out.list.locate(range.begin);
    out.end = range.end == column.n_rows() ? out.list.size : out.list.locate(range.end);
  } else {
    keep_own(gather_in_scope(out.list, scope), out);
  }
  out.doc_freq = out.n_in_scope() - view.dead_doc_freq(arm, out.term, scope.cells);
}

// Calls f(row, term_freq) for the term's postings inside the scope.
template <typename F>
void for_each_in_scope(PostingList const& list, ScopeRows const& scope, F&& f) {
  for (RowRange const& range : scope.ranges)
    list.for_each(list.locate(range.begin), list.locate(range.end), f);
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
    return column.list_of(a).size < column.list_of(b).size;
  });
  std::vector<std::vector<std::uint32_t>> positions(terms.size());
  OwnPostings own(PostingFormat(column.parts().posting_width));
  for_each_in_scope(column.list_of(rarest), scope, [&](Row row, std::uint32_t) {
    if (!view.live()[row]) return;
    for (std::size_t t = 0; t < terms.size(); ++t) {
      column.positions(row, terms[t], positions[t]);
      if (positions[t].empty()) return;
    }
    std::uint32_t const freq = count_phrase(positions, leaf.offsets, leaf.slop);
    if (freq == 0) return;
    own.append(row, freq, column.doc_length(row));
  });
  keep_own(std::move(own), out);
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
    bool present = false;
    for_each_in_scope(column.list_of(term), scope, [&](Row row, std::uint32_t freq) {
      if (!view.live()[row]) return;
      present = true;
      Found& one = found[row];
      one.freq += freq;
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
  OwnPostings own(PostingFormat(column.parts().posting_width));
  for (auto const& [row, one] : found) {
    // A compound and its first part may both begin so, and are one occurrence.
    own.append(row, one.n_terms == 1 ? one.freq : column.count_places(row, terms),
               column.doc_length(row));
  }
  keep_own(std::move(own), out);
}

}  // namespace

LeafPostings find_postings(SegmentView const& view, std::size_t arm, ScopeRows const& scope,
                           Leaf const& leaf, std::set<std::string>& expanded,
                           std::string const& argument) {
  LexicalColumn const& column = *view.segment().p.lexical[arm];
  LeafPostings out;
  if (scope.ranges.empty()) return out;
  switch (leaf.kind) {
    case Leaf::Kind::kTerm:
      find_term(view, arm, column, scope, leaf.terms.front(), out);
      return out;
    case Leaf::Kind::kPhrase:
      find_phrase(view, column, scope, leaf, out);
      break;
    case Leaf::Kind::kPrefix:
      find_prefix(view, column, scope, leaf, expanded, argument, out);
      break;
  }
  out.doc_freq = out.n_in_scope();
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
