// Audiences and the arms beside text and vectors against plain definitions, on random tables.
#include <algorithm>
#include <cmath>

#include "core/formulas.hpp"
#include "engine/related/listed.hpp"
#include "engine/related/newest.hpp"
#include "engine/related/tags.hpp"
#include "native/check.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {
namespace {

struct Example {
  World world;
  Asked asked;
  ResolvedScopes scopes;
  std::unique_ptr<QueryGroups> groups;
  Audience audience;

  AudienceView view() const { return {world.snapshot, asked.request, scopes, audience}; }
};

Example random_example(Rng& rng, std::size_t n_queries = 6, std::size_t n_scopes = 3) {
  WorldOptions options;
  options.n_cells = 1 + rng.below(7);
  options.max_rows = rng.below(4) == 0 ? 500 : 60;
  World world = random_world(rng, options);
  Asked asked = random_asked(rng, options.n_cells, n_queries, n_scopes, 1 + rng.below(3));
  ResolvedScopes scopes = resolve_scopes(world.snapshot, asked.request);
  auto groups = std::make_unique<QueryGroups>(asked.request);
  Audience audience(world.snapshot, asked.request, scopes, *groups);
  return {std::move(world), std::move(asked), std::move(scopes), std::move(groups),
          std::move(audience)};
}

using Place = std::pair<std::uint32_t, Row>;

TEST(audience_sees_the_living_of_its_scope_that_pass_its_filter) {
  Rng rng(41);
  for (int round = 0; round < 100; ++round) {
    auto const [world, asked, scopes, groups, audience] = random_example(rng);
    BatchRequest const& request = asked.request;
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (std::size_t q = 0; q < request.n_queries; ++q) {
      pairs.emplace(request.scope_of[q], request.filter_of[q]);
      std::uint32_t const group = audience.group_of(q);
      CHECK_EQ(audience.scope_of(group), request.scope_of[q]);
      std::vector<Place> expected, found;
      for (Doc const& doc : world.docs) {
        CHECK_EQ(audience.sees(group, {doc.segment, doc.row}), asked.sees(q, doc));
        if (asked.sees(q, doc)) expected.emplace_back(doc.segment, doc.row);
      }
      for_each_row(audience.tiles(group),
                   [&](DocRef doc) { found.emplace_back(doc.segment, doc.row); });
      CHECK(found == expected);
      for (std::uint32_t s = 0; s < world.snapshot.segments.size(); ++s) {
        auto const n_rows = static_cast<Row>(world.snapshot.segments[s]->segment().n_rows());
        for (Row past : {n_rows, n_rows + 1, n_rows + kTileRows, kNone32})
          CHECK(!audience.sees(group, {s, past}));
      }
      CHECK(!audience.sees(group, {static_cast<std::uint32_t>(world.snapshot.segments.size()), 0}));
    }
    CHECK_EQ(audience.n_groups(), pairs.size());
  }
}

// What two lists of candidates must share to the last bit.
using Listed = std::vector<std::tuple<float, Seq, std::uint32_t, Row>>;

Listed plain(std::vector<Candidate> const& found) {
  Listed out;
  for (Candidate const& one : found) {
    CHECK(!(one.score == 0.0f && std::signbit(one.score)));
    out.emplace_back(one.score, one.seq, one.doc.segment, one.doc.row);
  }
  return out;
}

// The best n documents by (score desc, seq asc).
Listed best_of(std::vector<std::pair<float, Doc const*>> scored, std::size_t n) {
  std::sort(scored.begin(), scored.end(), [](auto const& a, auto const& b) {
    return a.first != b.first ? a.first > b.first : a.second->seq < b.second->seq;
  });
  scored.resize(std::min(n, scored.size()));
  Listed out;
  for (auto const& [score, doc] : scored) out.emplace_back(score, doc->seq, doc->segment, doc->row);
  return out;
}

TEST(listed_candidates_are_the_visible_documents_each_by_its_best_score) {
  Rng rng(42);
  for (int round = 0; round < 200; ++round) {
    auto const [world, asked, scopes, groups, audience] = random_example(rng);
    std::vector<ListedDoc> given;
    for (std::size_t n = rng.below(std::size_t{60}); n > 0; --n) {
      Doc const& doc = world.docs[rng.below(std::min<std::size_t>(40, world.docs.size()))];
      float const score = static_cast<float>(rng.below(7) - 3) * 0.25f * (rng.below(2) ? 1 : -1);
      given.push_back({{doc.segment, doc.row}, score});
      if (rng.below(9) == 0) given.push_back({{doc.segment, doc.row + 10'000}, 9.0f});
      if (rng.below(9) == 0) given.push_back({{doc.segment + 10, doc.row}, 9.0f});
    }
    Floor<float> const floor{0.25f, rng.below(2) == 0, rng.below(2) == 0};
    std::size_t const depth = rng.below(std::size_t{12});
    for (std::size_t q = 0; q < asked.request.n_queries; ++q) {
      std::vector<std::pair<float, Doc const*>> scored;
      for (Doc const& doc : world.docs) {
        std::optional<float> best;
        for (ListedDoc const& one : given) {
          if (one.doc == DocRef{doc.segment, doc.row})
            best = std::max(best.value_or(one.score), one.score);
        }
        if (!best || !asked.sees(q, doc)) continue;
        bool const passes = !floor.set || *best > 0.25f || (*best == 0.25f && !floor.strict);
        if (passes) scored.emplace_back(*best, &doc);
      }
      CHECK(plain(list_candidates(world.snapshot, audience, audience.group_of(q), given, floor,
                                  depth)) == best_of(scored, depth));
    }
  }
}

TEST(newest_rows_are_those_of_the_largest_values_and_at_most_n) {
  Rng rng(43);
  for (int round = 0; round < 150; ++round) {
    auto const [world, asked, scopes, groups, audience] = random_example(rng);
    for (std::size_t q = 0; q < asked.request.n_queries; ++q) {
      std::size_t const attribute = rng.below(2) == 0 ? kNumber : kRating;
      bool const with_missing = rng.below(2) == 0;
      std::size_t const n = std::array{0, 1, 7, 1000}[rng.below(std::size_t{4})];
      auto const value = [&](Doc const& doc) -> std::optional<double> {
        if (attribute == kNumber) return doc.number;  // small: exact
        return doc.rating && !std::isnan(*doc.rating) ? doc.rating : std::nullopt;
      };
      std::vector<Doc const*> expected;
      for (Doc const& doc : world.docs) {
        if (asked.sees(q, doc) && (with_missing || value(doc))) expected.push_back(&doc);
      }
      std::sort(expected.begin(), expected.end(), [&](Doc const* a, Doc const* b) {
        double const x = value(*a).value_or(-INFINITY), y = value(*b).value_or(-INFINITY);
        return x != y ? x > y : a->seq < b->seq;
      });
      expected.resize(std::min(n, expected.size()));
      auto const found = newest_rows(world.snapshot, audience.tiles(audience.group_of(q)),
                                     attribute, n, with_missing);
      CHECK_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        Doc const& doc = *expected[i];
        CHECK_EQ(found[i].candidate.seq, doc.seq);
        CHECK_EQ(found[i].candidate.doc.segment, doc.segment);
        CHECK_EQ(found[i].candidate.doc.row, doc.row);
        CHECK_EQ(found[i].has_value, value(doc).has_value());
        if (!found[i].has_value) CHECK_EQ(found[i].code, INT64_MIN);
        if (attribute == kNumber && doc.number) CHECK_EQ(found[i].code, *doc.number);
      }
    }
  }
}

TEST(newest_candidates_score_by_the_place_of_their_value_among_the_distinct_ones) {
  Rng rng(47);
  for (int round = 0; round < 60; ++round) {
    auto const [world, asked, scopes, groups, audience] = random_example(rng);
    std::size_t const n = 1 + rng.below(std::size_t{20});
    auto const found = newest_candidates(world.snapshot, audience, kNumber, n, true, 2);
    CHECK_EQ(found.size(), audience.n_groups());
    for (std::size_t group = 0; group < found.size(); ++group) {
      auto const rows = newest_rows(world.snapshot, audience.tiles(group), kNumber, n, true);
      CHECK_EQ(found[group].size(), rows.size());
      std::set<std::int64_t> distinct;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        CHECK(found[group][i].doc == rows[i].candidate.doc);
        if (rows[i].has_value) distinct.insert(rows[i].code);
        double const expected =
            rows[i].has_value ? 1.0 / static_cast<double>(distinct.size()) : 0.0;
        CHECK_EQ(found[group][i].score, static_cast<float>(expected));
      }
    }
  }
}

std::vector<std::string> tags_of(Doc const& doc, std::size_t attribute) {
  if (attribute == kTags) return doc.tags;
  return doc.kind ? std::vector{*doc.kind} : std::vector<std::string>{};
}

std::set<std::string> words_of(std::string const& text) {
  std::istringstream in(text);
  std::set<std::string> out;
  for (std::string word; in >> word;) out.insert(word);
  return out;
}

// Whether the shorter word, of three letters or more, lies in the other. The letter of two bytes in
// the tests is é.
bool lies_in(std::string const& a, std::string const& b) {
  std::string const& shorter = a.size() <= b.size() ? a : b;
  std::string const& longer = a.size() <= b.size() ? b : a;
  std::size_t n_letters = shorter.size();
  for (std::size_t at = 0; (at = shorter.find("é", at)) != std::string::npos; at += 2) --n_letters;
  return n_letters >= 3 && longer.find(shorter) != std::string::npos;
}

bool is_named(std::string const& tag, std::string const& text, bool partial) {
  for (std::string const& word : words_of(tag)) {
    for (std::string const& said : words_of(text)) {
      if (word == said || (partial && lies_in(word, said))) return true;
    }
  }
  return false;
}

// What query q's tag arm lists.
Listed plain_tags(Example const& example, std::size_t q, std::string const& text,
                  TagParams const& params) {
  std::map<std::string, std::size_t> n_docs;  // of the tags in scope, whatever the filter
  for (Doc const& doc : example.world.docs) {
    if (!example.asked.in_scope(q, doc)) continue;
    auto const tags = tags_of(doc, params.attribute);
    for (std::string const& tag : std::set(tags.begin(), tags.end())) ++n_docs[tag];
  }
  std::map<std::string, int> hops;
  std::size_t most = 0;
  for (auto const& [tag, n] : n_docs) {
    if (!is_named(tag, text, params.partial)) continue;
    hops[tag] = 0;
    most = std::max(most, n);
  }
  for (int hop = 1; hop <= params.hops; ++hop) {
    std::map<std::string, int> const before = hops;
    for (Doc const& doc : example.world.docs) {
      auto const tags = tags_of(doc, params.attribute);
      bool const is_reached = std::any_of(
          tags.begin(), tags.end(), [&](std::string const& tag) { return before.contains(tag); });
      if (!example.asked.in_scope(q, doc) || !is_reached) continue;
      for (std::string const& tag : tags) hops.emplace(tag, hop);
    }
  }
  auto const n = static_cast<double>(most);
  double const base = std::min(0.9, 0.5 + 0.5 * (n / std::max(n, 5.0)));
  std::vector<std::pair<float, Doc const*>> scored;
  for (Doc const& doc : example.world.docs) {
    std::optional<int> nearest;
    for (std::string const& tag : tags_of(doc, params.attribute)) {
      auto const at = hops.find(tag);
      if (at != hops.end()) nearest = std::min(nearest.value_or(at->second), at->second);
    }
    if (nearest && example.asked.sees(q, doc))
      scored.emplace_back(static_cast<float>(std::ldexp(base, -*nearest)), &doc);
  }
  return best_of(scored, params.depth);
}

std::vector<std::optional<std::string>> random_queries(Rng& rng, Example const& example) {
  std::vector<std::string> const words{"oak", "tree", "fir", "nut", "te", "akum", "éa", "séa", ""};
  std::vector<std::optional<std::string>> out(example.asked.request.n_queries);
  for (auto& query : out) {
    if (rng.below(5) == 0) continue;
    query = words[rng.below(words.size())];
    *query += " " + words[rng.below(words.size())];
  }
  return out;
}

TEST(tag_candidates_are_near_the_tags_that_the_query_names) {
  Rng rng(44);
  std::size_t n_found = 0;
  for (int round = 0; round < 150; ++round) {
    bool const is_large = round % 30 == 0;  // more scopes than are in memory together
    Example const example = random_example(rng, is_large ? 150 : 6, is_large ? 100 : 3);
    TagParams const params{std::array{std::size_t{kTags}, std::size_t{kKind}}[rng.below(2u)],
                           static_cast<int>(rng.below(4)), rng.below(2) == 0,
                           std::array{1u, 5u, 1000u}[rng.below(3u)]};
    auto const queries = random_queries(rng, example);
    auto const found = tag_candidates(example.view(), *word_analyzer(), queries, params);
    CHECK_EQ(found.size(), queries.size());
    for (std::size_t q = 0; q < found.size(); ++q) {
      n_found += found[q].size();
      CHECK(plain(found[q]) ==
            (queries[q] ? plain_tags(example, q, *queries[q], params) : Listed{}));
    }
  }
  CHECK(n_found > 5000);
}

// How many of the tags are among the others, each once.
std::size_t n_in(std::vector<std::string> const& tags, std::set<std::string> const& others) {
  std::set<std::string> const own(tags.begin(), tags.end());
  return static_cast<std::size_t>(std::count_if(
      own.begin(), own.end(), [&](std::string const& tag) { return others.contains(tag); }));
}

TEST(tag_relatives_share_most_tags_with_the_results) {
  Rng rng(45);
  std::size_t n_found = 0, n_beside_found = 0;
  for (int round = 0; round < 150; ++round) {
    bool const is_large = round % 30 == 0;
    Example const example = random_example(rng, is_large ? 150 : 6, is_large ? 100 : 3);
    World const& world = example.world;
    std::size_t const attribute = rng.below(3) == 0 ? kKind : kTags;
    std::size_t const n = std::array{0u, 1u, 5u, 1000u}[rng.below(4u)];
    std::vector<std::vector<ListedDoc>> results(example.asked.request.n_queries);
    for (auto& one : results) {
      for (std::size_t i = rng.below(std::size_t{5}); i > 0; --i) {
        Doc const& doc = world.docs[rng.below(world.docs.size())];
        one.push_back({{doc.segment, doc.row}, 1.0f});
      }
    }
    auto const found = related_documents(example.view(), results, attribute, n, false);
    auto const more = related_documents(example.view(), results, attribute, n, true);
    CHECK_EQ(found.size(), results.size());
    for (std::size_t q = 0; q < found.size(); ++q) {
      std::set<std::string> held;  // the tags of the results
      std::set<Place> mine;
      for (Doc const& doc : world.docs) {
        bool const is_result = std::any_of(
            results[q].begin(), results[q].end(),
            [&](ListedDoc const& one) { return one.doc == DocRef{doc.segment, doc.row}; });
        if (!is_result || !example.asked.sees(q, doc)) continue;
        mine.emplace(doc.segment, doc.row);
        for (std::string const& tag : tags_of(doc, attribute)) held.insert(tag);
      }
      std::set<std::string> beside;  // those one hop from them
      for (Doc const& doc : world.docs) {
        auto const tags = tags_of(doc, attribute);
        if (!example.asked.in_scope(q, doc) || n_in(tags, held) == 0) continue;
        beside.insert(tags.begin(), tags.end());
      }
      for (std::string const& tag : held) beside.erase(tag);
      std::vector<std::pair<float, Doc const*>> scored, later;
      for (Doc const& doc : world.docs) {
        auto const tags = tags_of(doc, attribute);
        if (mine.contains({doc.segment, doc.row}) || !example.asked.sees(q, doc)) continue;
        auto const n_shared = static_cast<float>(n_in(tags, held));
        auto const n_beside = static_cast<float>(n_in(tags, beside));
        if (n_shared > 0.0f) {
          scored.emplace_back(n_shared, &doc);
        } else if (n_beside > 0.0f) {
          later.emplace_back(n_beside, &doc);
        }
      }
      n_found += found[q].size();
      CHECK(plain(found[q]) == best_of(scored, n));
      Listed expected = best_of(scored, n);
      Listed const after = best_of(later, n - expected.size());
      n_beside_found += after.size();
      for (auto one : after) {
        std::get<0>(one) = 0.0f;
        expected.push_back(one);
      }
      CHECK(plain(more[q]) == expected);
    }
  }
  CHECK(n_beside_found > 1000);
  CHECK(n_found > 5000);
}

}  // namespace
}  // namespace hyrecall::testing
