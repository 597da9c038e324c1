#include "engine/related/tags.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "core/formulas.hpp"
#include "core/parallel.hpp"
#include "engine/related/incidence.hpp"

namespace hyrecall {
namespace {

using Item = Incidence::Item;

constexpr std::size_t kScopesAtOnce = 64;  // whose tags are in memory together
constexpr std::size_t kLeastLetters = 3;   // of a token that another may contain

// The queries for which is_wanted(query).
template <typename IsWanted>
std::vector<std::uint32_t> queries_where(std::size_t n_queries, IsWanted const& is_wanted) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t q = 0; q < n_queries; ++q) {
    if (is_wanted(q)) out.push_back(q);
  }
  return out;
}

// Calls answer(query, tags of its scope, their tokens) for each wanted query, on all threads.
// read_tokens is called once a scope.
void for_each_query(
    AudienceView const& view, std::span<std::uint32_t const> wanted, std::size_t attribute,
    std::function<text::TokenBatch(Incidence const&)> const& read_tokens,
    std::function<void(std::uint32_t, Incidence const&, text::TokenBatch const&)> const& answer) {
  std::vector<std::uint32_t> by_scope(wanted.begin(), wanted.end());
  std::stable_sort(by_scope.begin(), by_scope.end(), [&](std::uint32_t a, std::uint32_t b) {
    return view.request.scope_of[a] < view.request.scope_of[b];
  });
  struct Part {
    std::uint32_t scope;
    std::unique_ptr<Incidence> tags;
    text::TokenBatch tokens;
  };
  for (std::size_t begin = 0; begin < by_scope.size();) {
    std::vector<Part> parts;
    std::vector<std::uint32_t> part_of;
    std::size_t end = begin;
    for (; end < by_scope.size(); ++end) {
      std::uint32_t const scope = view.request.scope_of[by_scope[end]];
      if (parts.empty() || parts.back().scope != scope) {
        if (parts.size() == kScopesAtOnce) break;
        parts.push_back({scope, nullptr, {}});
      }
      part_of.push_back(static_cast<std::uint32_t>(parts.size() - 1));
    }
    parallel_for(parts.size(), view.request.threads, [&](int, std::size_t p) {
      GroupTiles tiles;
      for (std::size_t s = 0; s < view.snapshot.segments.size(); ++s) {
        tiles.push_back(
            select_tiles(*view.snapshot.segments[s], view.scopes[parts[p].scope][s], nullptr));
      }
      parts[p].tags = std::make_unique<Incidence>(view.snapshot, attribute, tiles);
      parts[p].tokens = read_tokens(*parts[p].tags);
    });
    parallel_for(end - begin, view.request.threads, [&](int, std::size_t i) {
      Part const& part = parts[part_of[i]];
      answer(by_scope[begin + i], *part.tags, part.tokens);
    });
    begin = end;
  }
}

bool is_visible(AudienceView const& view, std::uint32_t query, DocRef place) {
  if (view.request.filter_of[query] == kNone32) return true;  // the scope's rows are all there are
  return view.audience.sees(view.audience.group_of(query), place);
}

Candidate candidate_at(AudienceView const& view, DocRef place, float score) {
  return {score, view.snapshot.segments[place.segment]->segment().p.seqs[place.row], place};
}

std::size_t letters_in(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

bool is_partial_match(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return letters_in(a) >= kLeastLetters && b.find(a) != std::string_view::npos;
}

// The tags, one of whose tokens is a token of the query.
std::vector<Item> matched_tags(text::TokenBatch const& tags, text::TokenBatch const& query,
                               bool partial) {
  std::vector<bool> is_hit(tags.terms.size(), false);
  for (std::size_t term = 0; term < tags.terms.size(); ++term) {
    is_hit[term] =
        std::any_of(query.terms.begin(), query.terms.end(), [&](std::string const& word) {
          return word == tags.terms[term] || (partial && is_partial_match(word, tags.terms[term]));
        });
  }
  std::vector<Item> matched;
  for (Item tag = 0; tag + 1 < tags.offsets.size(); ++tag) {
    for (std::uint64_t at = tags.offsets[tag]; at < tags.offsets[tag + 1]; ++at) {
      if (!is_hit[tags.term_ids[at]]) continue;
      matched.push_back(tag);
      break;
    }
  }
  return matched;
}

// The best documents by their nearest tag. hops: of each tag, kFar beyond reach.
std::vector<Candidate> score_documents(AudienceView const& view, std::uint32_t query,
                                       Incidence const& tags, std::span<std::uint8_t const> hops,
                                       std::int64_t most_documents, std::size_t depth) {
  double const base = tag_relevance(most_documents);
  TopK best(depth);
  for (std::size_t row = 0; row < tags.n_rows(); ++row) {
    std::uint8_t nearest = Incidence::kFar;
    for (Item tag : tags.items_of(row)) nearest = std::min(nearest, hops[tag]);
    if (nearest == Incidence::kFar) continue;
    auto const score = static_cast<float>(hop_decay(base, nearest));
    if (score < best.threshold() || !is_visible(view, query, tags.place(row))) continue;
    best.offer(candidate_at(view, tags.place(row), score));
  }
  return best.take();
}

// The n documents with most of some tags, each once, that are not yet listed.
std::vector<Candidate> share_documents(AudienceView const& view, std::uint32_t query,
                                       Incidence const& tags, std::span<Item const> held,
                                       std::vector<bool> const& is_listed, std::size_t n) {
  std::vector<std::uint32_t> shared(tags.n_rows(), 0);
  for (Item tag : held) {
    for (std::uint32_t row : tags.rows_of(tag)) ++shared[row];
  }
  TopK best(n);
  for (std::size_t row = 0; row < tags.n_rows(); ++row) {
    if (shared[row] == 0 || is_listed[row] || !is_visible(view, query, tags.place(row))) continue;
    best.offer(candidate_at(view, tags.place(row), static_cast<float>(shared[row])));
  }
  return best.take();
}

}  // namespace

std::vector<std::vector<Candidate>> tag_candidates(
    AudienceView const& view, text::Analyzer const& analyzer,
    std::span<std::optional<std::string> const> queries, TagParams const& params) {
  std::vector<std::vector<Candidate>> out(queries.size());
  auto const wanted =
      queries_where(queries.size(), [&](std::uint32_t q) { return queries[q].has_value(); });
  auto const read_tokens = [&](Incidence const& tags) {
    std::vector<std::string_view> texts;
    for (Item tag = 0; tag < tags.n_items(); ++tag)
      texts.push_back(std::get<std::string_view>(tags.value(tag)));
    return analyzer.analyze(texts, text::Role::kDocument);
  };
  auto const answer = [&](std::uint32_t q, Incidence const& tags, text::TokenBatch const& tokens) {
    std::string_view const text = *queries[q];
    text::TokenBatch const query = analyzer.analyze({&text, 1}, text::Role::kQuery);
    std::vector<Item> const named = matched_tags(tokens, query, params.partial);
    if (named.empty()) return;
    std::size_t most_documents = 0;
    for (Item tag : named) most_documents = std::max(most_documents, tags.rows_of(tag).size());
    out[q] = score_documents(view, q, tags, tags.hops_from(named, params.hops),
                             static_cast<std::int64_t>(most_documents), params.depth);
  };
  for_each_query(view, wanted, params.attribute, read_tokens, answer);
  return out;
}

std::vector<std::vector<Candidate>> related_documents(
    AudienceView const& view, std::span<std::vector<ListedDoc> const> results,
    std::size_t attribute, std::size_t n, bool with_beside) {
  std::vector<std::vector<Candidate>> out(results.size());
  auto const wanted =
      queries_where(results.size(), [&](std::uint32_t q) { return !results[q].empty(); });
  auto const no_tokens = [](Incidence const&) { return text::TokenBatch(); };
  auto const answer = [&](std::uint32_t q, Incidence const& tags, text::TokenBatch const&) {
    std::vector<bool> is_listed(tags.n_rows(), false);
    std::set<Item> of_results;
    for (ListedDoc const& doc : results[q]) {
      std::uint32_t const row = tags.find(doc.doc);
      if (row == kNone32 || !is_visible(view, q, tags.place(row))) continue;
      is_listed[row] = true;
      of_results.insert(tags.items_of(row).begin(), tags.items_of(row).end());
    }
    std::vector<Item> const held(of_results.begin(), of_results.end());
    out[q] = share_documents(view, q, tags, held, is_listed, n);
    if (!with_beside || out[q].size() == n) return;
    for (Candidate const& one : out[q]) is_listed[tags.find(one.doc)] = true;
    std::vector<std::uint8_t> const hops = tags.hops_from(held, 1);
    std::vector<Item> beside;
    for (Item tag = 0; tag < tags.n_items(); ++tag) {
      if (hops[tag] == 1) beside.push_back(tag);
    }
    for (Candidate one : share_documents(view, q, tags, beside, is_listed, n - out[q].size())) {
      one.score = 0.0f;  // they share none of the results' own
      out[q].push_back(one);
    }
  };
  for_each_query(view, wanted, attribute, no_tokens, answer);
  return out;
}

}  // namespace hyrecall
