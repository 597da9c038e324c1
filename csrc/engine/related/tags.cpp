#include "engine/related/tags.hpp"

#include <algorithm>
#include <functional>
#include <memory>

#include "core/formulas.hpp"
#include "core/parallel.hpp"
#include "engine/related/incidence.hpp"

namespace hyrecall {
namespace {

using Item = Incidence::Item;

constexpr std::size_t kScopesAtOnce = 64;  // whose tags are in memory together
constexpr std::size_t kLeastLetters = 3;   // of a token that another may contain

// Calls answer(query, tags of its scope) for each wanted query, on all threads. make_extra gives
// what else is prepared once a scope.
template <typename Prepared>
void for_each_query(
    AudienceView const& view, std::span<std::uint32_t const> wanted, std::size_t attribute,
    std::function<void(Incidence const&, Prepared&)> const& prepare,
    std::function<void(std::uint32_t, Incidence const&, Prepared const&)> const& answer) {
  std::vector<std::uint32_t> by_scope(wanted.begin(), wanted.end());
  std::stable_sort(by_scope.begin(), by_scope.end(), [&](std::uint32_t a, std::uint32_t b) {
    return view.request.scope_of[a] < view.request.scope_of[b];
  });
  struct Part {
    std::uint32_t scope;
    std::unique_ptr<Incidence> tags;
    Prepared prepared;
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
      prepare(*parts[p].tags, parts[p].prepared);
    });
    parallel_for(end - begin, view.request.threads, [&](int, std::size_t i) {
      Part const& part = parts[part_of[i]];
      answer(by_scope[begin + i], *part.tags, part.prepared);
    });
    begin = end;
  }
}

// For questions that prepare nothing else.
struct Nothing {};

void for_each_query(AudienceView const& view, std::span<std::uint32_t const> wanted,
                    std::size_t attribute,
                    std::function<void(std::uint32_t, Incidence const&)> const& answer) {
  for_each_query<Nothing>(
      view, wanted, attribute, [](Incidence const&, Nothing&) {},
      [&](std::uint32_t q, Incidence const& tags, Nothing const&) { answer(q, tags); });
}

// The queries that have entries.
template <typename Entries>
std::vector<std::uint32_t> queries_with(std::size_t n_queries, Entries const& entries) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t q = 0; q < n_queries; ++q) {
    if (!entries[q].empty()) out.push_back(q);
  }
  return out;
}

Seq seq_at(AudienceView const& view, DocRef place) {
  return view.snapshot.segments[place.segment]->segment().p.seqs[place.row];
}

bool is_visible(AudienceView const& view, std::uint32_t query, DocRef place) {
  if (view.request.filter_of[query] == kNone32) return true;  // the scope's rows are all there are
  return view.audience.sees(view.audience.group_of(query), place);
}

Candidate candidate_at(AudienceView const& view, DocRef place, float score) {
  return {score, seq_at(view, place), place};
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

// The n documents with most of the tags `held`, which may repeat, that are no results.
std::vector<Candidate> share_documents(AudienceView const& view, std::uint32_t query,
                                       Incidence const& tags, std::vector<Item> held,
                                       std::vector<bool> const& is_result, std::size_t n) {
  std::sort(held.begin(), held.end());
  held.erase(std::unique(held.begin(), held.end()), held.end());
  std::vector<std::uint32_t> shared(tags.n_rows(), 0);
  for (Item tag : held) {
    for (std::uint32_t row : tags.rows_of(tag)) ++shared[row];
  }
  TopK best(n);
  for (std::size_t row = 0; row < tags.n_rows(); ++row) {
    if (shared[row] == 0 || is_result[row] || !is_visible(view, query, tags.place(row))) continue;
    best.offer(candidate_at(view, tags.place(row), static_cast<float>(shared[row])));
  }
  return best.take();
}

// Those of some tags that are in scope.
std::vector<Item> items_at(Incidence const& tags, std::span<KeyValue const> values) {
  std::vector<Item> out;
  for (KeyValue const& value : values) {
    Item const item = tags.find(value);
    if (item != kNone32) out.push_back(item);
  }
  return out;
}

}  // namespace

std::vector<std::vector<Candidate>> tag_candidates(
    AudienceView const& view, text::Analyzer const& analyzer,
    std::span<std::optional<std::string> const> queries, TagParams const& params) {
  std::vector<std::vector<Candidate>> out(queries.size());
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t q = 0; q < queries.size(); ++q) {
    if (queries[q]) wanted.push_back(q);
  }
  auto const prepare = [&](Incidence const& tags, text::TokenBatch& tokens) {
    std::vector<std::string_view> texts;
    for (Item tag = 0; tag < tags.n_items(); ++tag)
      texts.push_back(std::get<std::string_view>(tags.value(tag)));
    tokens = analyzer.analyze(texts, text::Role::kDocument);
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
  for_each_query<text::TokenBatch>(view, wanted, params.attribute, prepare, answer);
  return out;
}

std::vector<std::vector<Candidate>> related_documents(
    AudienceView const& view, std::span<std::vector<ListedDoc> const> results,
    std::size_t attribute, std::size_t n) {
  std::vector<std::vector<Candidate>> out(results.size());
  auto const answer = [&](std::uint32_t q, Incidence const& tags) {
    std::vector<bool> is_result(tags.n_rows(), false);
    std::vector<Item> held;
    for (ListedDoc const& doc : results[q]) {
      std::uint32_t const row = tags.find(doc.doc);
      if (row == kNone32 || !is_visible(view, q, tags.place(row))) continue;
      is_result[row] = true;
      held.insert(held.end(), tags.items_of(row).begin(), tags.items_of(row).end());
    }
    out[q] = share_documents(view, q, tags, std::move(held), is_result, n);
  };
  for_each_query(view, queries_with(results.size(), results), attribute, answer);
  return out;
}

std::vector<std::vector<KeyValue>> tags_beside(AudienceView const& view,
                                               ByQuery<KeyValue> const& tags,
                                               std::size_t attribute) {
  std::vector<std::vector<KeyValue>> out(tags.n_queries());
  auto const answer = [&](std::uint32_t q, Incidence const& here) {
    std::vector<std::uint8_t> const hops = here.hops_from(items_at(here, tags[q]), 1);
    for (Item item = 0; item < here.n_items(); ++item) {
      if (hops[item] == 1) out[q].push_back(here.value(item));
    }
  };
  for_each_query(view, queries_with(tags.n_queries(), tags), attribute, answer);
  return out;
}

std::vector<std::vector<Candidate>> documents_sharing(AudienceView const& view,
                                                      ByQuery<KeyValue> const& tags,
                                                      ByQuery<Seq> const& results,
                                                      std::size_t attribute, std::size_t n) {
  require(results.n_queries() == tags.n_queries(), "results of the same queries");
  std::vector<std::vector<Candidate>> out(tags.n_queries());
  auto const answer = [&](std::uint32_t q, Incidence const& here) {
    std::vector<Seq> seqs(results[q].begin(), results[q].end());
    std::sort(seqs.begin(), seqs.end());
    std::vector<bool> is_result(here.n_rows(), false);
    for (std::size_t row = 0; row < here.n_rows(); ++row) {
      Seq const seq = seq_at(view, here.place(row));
      is_result[row] = std::binary_search(seqs.begin(), seqs.end(), seq);
    }
    out[q] = share_documents(view, q, here, items_at(here, tags[q]), is_result, n);
  };
  for_each_query(view, queries_with(tags.n_queries(), tags), attribute, answer);
  return out;
}

}  // namespace hyrecall
