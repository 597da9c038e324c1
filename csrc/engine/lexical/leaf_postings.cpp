#include "engine/lexical/leaf_postings.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "engine/lexical/column.hpp"
#include "engine/lexical/fuzzy_terms.hpp"
#include "kernels/cpu/isa.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kLooksAPoll = 1 << 20;  // tokens read between two polls: some milliseconds

// Copies those of `n` postings of a tile whose row's bit is set; returns the end of its output.
std::uint8_t* select(PostingFormat format, std::uint8_t const* from, std::size_t n,
                     std::uint64_t const* words, std::uint8_t* to) {
  if (format.width() == PostingFormat::kCompact)
    return to + cpu::kernels().scores.select_coded(from, n, words, to) * PostingFormat::kCompact;
  for (std::uint8_t const* const end = from + n * format.width(); from != end;
       from += format.width()) {
    Row const row = PostingFormat::row(format.read(from));
    std::memcpy(to, from, PostingFormat::kWide);
    to += (words[row / 64] >> (row % 64) & 1) * PostingFormat::kWide;  // no branch: bits are random
  }
  return to;
}

// A term's postings inside a scope of several ranges. If there are many ranges, each posting is
// read once.
OwnPostings gather_in_scope(PostingList const& list, ScopeRows const& scope,
                            PostingScratch& scratch) {
  std::size_t const width = list.format.width();
  std::size_t const most = list.size * width + cpu::kSelectSpare;
  if (scratch.bytes.size() < most) scratch.bytes.resize(most);
  scratch.runs.clear();
  std::uint8_t* to = scratch.bytes.data();
  auto range = scope.ranges.begin();
  std::uint32_t ahead = 0;
  for (std::size_t run = 0; run < list.runs.size(); ++run) {
    std::uint32_t const tile = list.runs[run].tile;
    std::uint32_t at = list.runs[run].begin;
    std::uint32_t const end = list.run_end(run);
    std::uint8_t* const begin = to;
    if (std::uint64_t const* const words = scope.bits.of_tile(tile); words != nullptr) {
      if (end > ahead) ahead = list.read_ahead(at, list.size);
      to = select(list.format, list.data + at * width, end - at, words, to);
    } else {
      Row const first = tile * kDocTileRows;
      range = std::partition_point(range, scope.ranges.end(),
                                   [&](RowRange const& r) { return r.end <= first; });
      for (auto r = range; r != scope.ranges.end() && r->begin < first + kDocTileRows; ++r) {
        if (r->begin > first) at = list.locate(at, end, r->begin - first);
        std::uint32_t const stop =
            r->end - first < kDocTileRows ? list.locate(at, end, r->end - first) : end;
        to = std::copy(list.data + at * width, list.data + stop * width, to);
        at = stop;
      }
    }
    if (to == begin) continue;
    auto const before = static_cast<std::size_t>(begin - scratch.bytes.data());
    scratch.runs.push_back({tile, static_cast<std::uint32_t>(before / width)});
  }
  auto const n_bytes = static_cast<std::size_t>(to - scratch.bytes.data());
  OwnPostings own(list.format, std::span(scratch.bytes).first(n_bytes), scratch.runs);
  for (PostingEscape const& escape : list.escapes) {
    if (scope.contains(escape.row)) own.append_escape(escape);
  }
  return own;
}

// Keeps the list of a leaf that is no plain term.
void keep_own(OwnPostings own, LeafPostings& out) {
  out.own = std::make_unique<OwnPostings const>(std::move(own));
  out.list = out.own->list();
  out.begin = 0;
  out.end = out.list.size;
}

// The run of a list where a range begins, before its postings are searched.
struct Entrance {
  LeafPostings* leaf;
  std::size_t run;
};

// If not, the first posting of the tile's run is the first of the range, so its row need not be
// read.
bool starts_inside_a_tile(RowRange range) {
  return range.begin % kDocTileRows != 0;
}

// Finds the first posting of a range and the first one behind it.
void find_in_range(Entrance const& entry, RowRange range, std::size_t n_rows) {
  LeafPostings& out = *entry.leaf;
  PostingList const& list = out.list;
  std::uint32_t const tile = range.begin / kDocTileRows;
  bool const enters = entry.run < list.runs.size();
  bool const is_inside = enters && list.runs[entry.run].tile == tile;
  out.begin = enters ? list.runs[entry.run].begin : list.size;
  if (is_inside && starts_inside_a_tile(range)) {
    out.begin = list.locate_in_run(entry.run, range.begin % kDocTileRows);
  }
  if (range.end == n_rows) {
    out.end = list.size;
  } else if (range.end / kDocTileRows != tile) {
    out.end = list.locate(range.end);
  } else {
    out.end = is_inside ? list.locate_from(out.begin, out.begin, list.run_end(entry.run),
                                           range.end % kDocTileRows)
                        : out.begin;
  }
}

// Calls f(row, term_freq) for the term's postings inside the scope.
template <typename F>
void for_each_in_scope(PostingList const& list, ScopeRows const& scope, F&& f) {
  for (RowRange const& range : scope.ranges)
    list.for_each(list.locate(range.begin), list.locate(range.end), f);
}

// The terms of a segment for which the last word of a leaf stands, each once, by number.
std::vector<TermId> terms_of(LexicalColumn const& column, Leaf const& leaf) {
  std::vector<TermId> out;
  auto const add = [&out](auto const& more) { out.insert(out.end(), more.begin(), more.end()); };
  auto const add_known = [&](std::vector<std::string> const& terms) {
    for (std::string const& term : terms) {
      if (TermId const found = column.find(term); found != kNone32) out.push_back(found);
    }
  };
  if (leaf.chosen) {
    add_known(*leaf.chosen);
  } else if (leaf.kind == Leaf::Kind::kFuzzy) {
    add(terms_within(column, leaf.terms.back(), leaf.edits));
    for (std::string const& stem : leaf.stems) add(terms_within(column, stem, leaf.edits));
  } else {
    add(column.with_prefix(leaf.terms.back()));
    for (std::string const& beginning : leaf.beginnings) add(column.with_prefix(beginning));
    add_known(leaf.stems);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// The last token of a prefix or fuzzy word is any of its terms.
void find_phrase(SegmentView const& view, LexicalColumn const& column, ScopeRows const& scope,
                 Leaf const& leaf, LeafPostings& out) {
  std::vector<TermId> terms;    // distinct
  std::vector<std::size_t> at;  // [whole tokens of the phrase] index of its term
  std::unordered_map<TermId, std::size_t> places;
  bool const is_open = leaf.kind != Leaf::Kind::kPhrase;
  for (std::size_t token = 0; token + (is_open ? 1 : 0) < leaf.terms.size(); ++token) {
    TermId const term = column.find(leaf.terms[token]);
    if (term == kNone32) return;
    auto const [place, is_new] = places.try_emplace(term, terms.size());
    if (is_new) terms.push_back(term);
    at.push_back(place->second);
  }
  std::vector<TermId> endings;
  if (is_open) endings = terms_of(column, leaf);
  // Read the rarest term's list; the forward view of each of its documents has the other terms.
  TermId const rarest = *std::min_element(terms.begin(), terms.end(), [&](TermId a, TermId b) {
    return column.list_of(a).size < column.list_of(b).size;
  });
  std::vector<std::vector<std::uint32_t>> positions(terms.size());
  std::vector<std::uint32_t> ends;
  std::vector<std::span<std::uint32_t const>> of_tokens(leaf.terms.size());
  OwnPostings own(PostingFormat(column.parts().posting_width));
  for_each_in_scope(column.list_of(rarest), scope, [&](Row row, std::uint32_t) {
    if (!view.live()[row]) return;
    for (std::size_t t = 0; t < terms.size(); ++t) {
      poll_interrupt();
      column.positions(row, terms[t], positions[t]);
      if (positions[t].empty()) return;
    }
    for (std::size_t token = 0; token < at.size(); ++token) of_tokens[token] = positions[at[token]];
    if (is_open) {
      column.places(row, endings, ends);
      if (ends.empty()) return;
      of_tokens.back() = ends;
    }
    std::uint32_t const freq = count_phrase(of_tokens, leaf.offsets, leaf.slop);
    if (freq == 0) return;
    own.append(row, freq, column.doc_length(row));
  });
  keep_own(std::move(own), out);
}

// Finds the postings of a word that stands for several terms, and counts these.
void find_expanded(SegmentView const& view, LexicalColumn const& column, ScopeRows const& scope,
                   Leaf const& leaf, Expansion& expanded, LeafPostings& out) {
  struct Found {
    Row row;
    std::uint32_t freq;
  };
  std::vector<Found> found;   // by term, then by row
  std::vector<TermId> terms;  // that some document of the scope holds, by number
  SteadyPoll poll;
  for (TermId const term : terms_of(column, leaf)) {
    std::int64_t doc_freq = 0;
    poll.step();
    for_each_in_scope(column.list_of(term), scope, [&](Row row, std::uint32_t freq) {
      poll.step();
      if (!view.live()[row]) return;
      ++doc_freq;
      found.push_back({row, freq});
    });
    if (doc_freq == 0) continue;
    terms.push_back(term);
    expanded[std::string(column.parts().terms[term])] += doc_freq;
  }
  std::sort(found.begin(), found.end(), [&poll](Found const& a, Found const& b) {
    poll.step();
    return a.row < b.row;
  });
  std::vector<std::uint32_t> places;
  OwnPostings own(PostingFormat(column.parts().posting_width));
  for (auto first = found.begin(); first != found.end();) {
    Row const row = first->row;
    auto const next =
        std::find_if(first + 1, found.end(), [row](Found const& one) { return one.row != row; });
    poll.step();
    // A compound and its first part may both be among the terms, and count as one occurrence.
    if (next > first + 1) column.places(row, terms, places);
    own.append(row, next == first + 1 ? first->freq : static_cast<std::uint32_t>(places.size()),
               column.doc_length(row));
    first = next;
  }
  keep_own(std::move(own), out);
  out.doc_freq = out.n_in_scope();
}

}  // namespace

void find_terms(SegmentView const& view, std::size_t arm, std::span<QueryOnSegment const> queries,
                PostingScratch& scratch) {
  LexicalColumn const& column = *view.segment().p.lexical[arm];
  std::vector<TermPlace>& terms = scratch.terms;
  terms.clear();
  for (std::uint32_t q = 0; q < queries.size(); ++q) {
    if (queries[q].scope->ranges.empty()) continue;
    auto const& leaves = queries[q].query->leaves;
    for (std::uint32_t leaf = 0; leaf < leaves.size(); ++leaf) {
      if (leaves[leaf].kind == Leaf::Kind::kTerm) terms.push_back({q, leaf});
    }
  }
  if (terms.empty()) return;  // the column of a segment without a row in scope may be unchecked
  auto const found = [&](TermPlace at) -> LeafPostings& { return queries[at.query].out[at.leaf]; };
  column.find_each(
      terms.size(),
      [&](std::size_t i) {
        LexicalQuery const& query = *queries[terms[i].query].query;
        return std::string_view(query.leaves[terms[i].leaf].terms.front());
      },
      [&](std::size_t i, TermId term) {
        found(terms[i]).term = term;
        if (term != kNone32) column.prefetch_list(term);
      });
  std::erase_if(terms, [&](TermPlace at) { return found(at).term == kNone32; });
  for (TermPlace const at : terms) {
    LeafPostings& leaf = found(at);
    leaf.list = column.list_of(leaf.term);
    leaf.list.prefetch_run(queries[at.query].scope->ranges.front().begin);
  }
  constexpr std::size_t kAtOnce = 64;
  Entrance entries[kAtOnce];
  for (std::size_t begin = 0; begin < terms.size(); begin += kAtOnce) {
    std::span const some = std::span(terms).subspan(begin, std::min(kAtOnce, terms.size() - begin));
    for (std::size_t i = 0; i < some.size(); ++i) {
      ScopeRows const& scope = *queries[some[i].query].scope;
      if (scope.ranges.size() != 1) continue;
      RowRange const range = scope.ranges.front();
      LeafPostings& leaf = found(some[i]);
      entries[i] = {&leaf, leaf.list.run_from(range.begin / kDocTileRows)};
      if (starts_inside_a_tile(range)) leaf.list.prefetch_posting(entries[i].run, range.begin);
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      ScopeRows const& scope = *queries[some[i].query].scope;
      LeafPostings& leaf = found(some[i]);
      if (scope.ranges.size() == 1) {
        find_in_range(entries[i], scope.ranges.front(), column.n_rows());
      } else {
        keep_own(gather_in_scope(leaf.list, scope, scratch), leaf);
      }
      leaf.doc_freq = leaf.n_in_scope() - view.dead_doc_freq(arm, leaf.term, scope.cells);
    }
  }
}

std::vector<std::string> most_frequent(Expansion const& terms, std::size_t n) {
  std::vector<Expansion::value_type const*> order;
  for (auto const& one : terms) order.push_back(&one);
  std::stable_sort(order.begin(), order.end(),
                   [](auto* a, auto* b) { return a->second > b->second; });
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(n, order.size()); ++i) out.push_back(order[i]->first);
  std::sort(out.begin(), out.end());
  return out;
}

void find_phrases(SegmentView const& view, std::size_t arm, QueryOnSegment const& query,
                  Expansions& expanded) {
  if (query.scope->ranges.empty()) return;
  LexicalColumn const& column = *view.segment().p.lexical[arm];
  for (std::size_t i = 0; i < query.query->leaves.size(); ++i) {
    Leaf const& leaf = query.query->leaves[i];
    LeafPostings& out = query.out[i];
    if (leaf.kind == Leaf::Kind::kTerm) continue;
    if (leaf.expands()) {
      find_expanded(view, column, *query.scope, leaf, expanded[i], out);
    } else {
      find_phrase(view, column, *query.scope, leaf, out);
      out.doc_freq = out.n_in_scope();
    }
  }
}

void find_chosen(SegmentView const& view, std::size_t arm, QueryOnSegment const& query) {
  if (query.scope->ranges.empty()) return;
  for (std::size_t i = 0; i < query.query->leaves.size(); ++i) {
    Leaf const& leaf = query.query->leaves[i];
    Expansion counted;
    if (leaf.chosen) {
      find_expanded(view, *view.segment().p.lexical[arm], *query.scope, leaf, counted,
                    query.out[i]);
    }
  }
}

ArmPostings::ArmPostings(std::span<std::optional<LexicalQuery> const> queries,
                         std::size_t n_segments)
    : n_segments_(n_segments) {
  firsts_.reserve(queries.size() + 1);
  for (auto const& query : queries)
    firsts_.push_back(firsts_.back() + (query ? query->leaves.size() : 0));
  leaves_.resize(firsts_.back() * n_segments);
}

// Moves a window [low, low + slop] over the displacements (position - offset) of all tokens, and
// stops only where the answer can change. Linear in the positions of each token.
std::uint32_t count_phrase(std::span<std::span<std::uint32_t const> const> positions,
                           std::span<std::uint32_t const> offsets, std::uint32_t slop) {
  std::span<std::uint32_t const> const places = positions[0];
  std::vector<std::size_t> next(positions.size(), 0);  // the first displacement from `low` on
  std::size_t counted = 0;                             // places before it are decided
  std::uint32_t count = 0;
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::size_t n_looks = 0;
  while (counted < places.size()) {
    n_looks += positions.size();
    if (n_looks > kLooksAPoll) {
      poll_interrupt();
      n_looks = 0;
    }
    // Skip windows that hold no undecided place.
    low = std::max(low, std::int64_t{places[counted]} - slop);
    std::int64_t nearest = places.back();  // later windows hold no place
    std::int64_t farthest = low;
    for (std::size_t t = 1; t < positions.size(); ++t) {
      std::size_t& at = next[t];
      while (at < positions[t].size() && std::int64_t{positions[t][at]} - offsets[t] < low) ++at;
      if (at == positions[t].size()) return count;
      std::int64_t const displacement = std::int64_t{positions[t][at]} - offsets[t];
      nearest = std::min(nearest, displacement);
      farthest = std::max(farthest, displacement);
    }
    if (farthest > low + slop) {
      low = farthest - slop;
    } else {  // every window that begins in [low, nearest] holds these displacements
      low = nearest;
      for (; counted < places.size() && places[counted] <= low + slop; ++counted) ++count;
      ++low;
    }
    // No later window holds these places.
    while (counted < places.size() && places[counted] < low) ++counted;
  }
  return count;
}

}  // namespace hyrecall
