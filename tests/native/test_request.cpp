// A request is put together piece by piece: what fits it, and what is refused.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.hpp"
#include "engine/request/request.hpp"
#include "engine/scope/filter.hpp"
#include "native/check.hpp"
#include "native/corpus.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::size_t kQueries = 3;

BatchRequest open_request() {
  BatchRequest out;
  out.n_queries = kQueries;
  Scope scope;
  scope.cells = {encoded("a"), encoded("b")};
  out.scopes.push_back(std::make_shared<Scope const>(std::move(scope)));
  out.scope_of.assign(kQueries, 0);
  out.filter_of.assign(kQueries, kNone32);
  return out;
}

LexicalRequest lexical_arm(std::size_t n_queries = kQueries) {
  LexicalRequest arm;
  arm.name = "text";
  arm.queries.resize(n_queries);
  return arm;
}

DenseRequest dense_arm(std::size_t n_queries = kQueries) {
  DenseRequest arm;
  arm.name = "vector";
  arm.queries = std::make_shared<DenseQueries const>(n_queries, 3u);
  return arm;
}

ListedRequest listed_arm(std::size_t n_queries = kQueries, float score = 1.0f) {
  ListedRequest arm;
  arm.name = "listed";
  arm.queries.assign(n_queries, {ListedDoc{{0, 0}, score}});
  return arm;
}

Fusion fusion_of(std::size_t n_arms, Fusion::Kind kind = Fusion::Kind::kRrf) {
  Fusion out;
  out.kind = kind;
  out.weights.assign(n_arms, 1.0);
  out.scales.assign(n_arms, Fusion::Scale::kNone);
  return out;
}

template <typename F>
bool is_refused(F&& change, char const* wish) {
  try {
    change();
  } catch (Error const& error) {
    return std::string(error.what()).find(wish) != std::string::npos;
  }
  return false;
}

TEST(request_takes_arms_with_an_entry_a_query) {
  BatchRequest request = open_request();
  request.add(lexical_arm());
  request.add(dense_arm());
  request.add(listed_arm());
  request.set_fusion(fusion_of(3), {0.5, true, false}, true);
  CHECK_EQ(request.n_arms(), 3u);
  CHECK(request.fusion.kind == Fusion::Kind::kRrf && request.normalize);
  CHECK(request.min_fused.passes(0.5) && !request.min_fused.passes(0.4));
}

TEST(request_refuses_arms_of_another_number_of_queries) {
  for (std::size_t const n : {kQueries - 1, kQueries + 1}) {
    BatchRequest request = open_request();
    CHECK(is_refused([&] { request.add(lexical_arm(n)); }, "one text a query"));
    CHECK(is_refused([&] { request.add(dense_arm(n)); }, "one vector a query"));
    CHECK(is_refused([&] { request.add(listed_arm(n)); }, "a list a query"));
    CHECK_EQ(request.n_arms(), 0u);
  }
}

TEST(request_refuses_listed_scores_that_are_not_finite) {
  for (float const score : {std::nanf(""), INFINITY, -INFINITY}) {
    BatchRequest request = open_request();
    CHECK(is_refused([&] { request.add(listed_arm(kQueries, score)); }, "finite scores"));
  }
}

TEST(request_takes_filters_by_number_and_refuses_unknown_ones) {
  BatchRequest request = open_request();
  auto const filter = std::make_shared<FilterProgram const>();
  request.set_filters({filter}, std::vector<std::uint32_t>{0, kNone32, 0});
  CHECK_EQ(request.filters.size(), 1u);
  CHECK_EQ(request.filter_of[1], kNone32);
  CHECK(is_refused([&] { request.set_filters({filter}, std::vector<std::uint32_t>{0, 1, 0}); },
                   "a known filter"));
  CHECK(is_refused([&] { request.set_filters({filter}, std::vector<std::uint32_t>{0}); },
                   "expected one a query"));
}

TEST(request_of_divided_scopes_takes_arms_of_a_table_only) {
  BatchRequest request = open_request();
  std::vector<std::string> const values{encoded("a")};
  request.divide(0, values);
  CHECK_EQ(request.tables.size(), 2u);
  CHECK(is_refused([&] { request.add(lexical_arm()); }, "where scopes are divided"));
  LexicalRequest arm = lexical_arm();
  arm.table = 2;
  CHECK(is_refused([&] { request.add(arm); }, "a known table"));
  arm.table = 1;
  request.add(arm);
  CHECK(is_refused([&] { request.divide(0, values); }, "a request without arms"));
  CHECK(is_refused([&] { request.set_fusion(fusion_of(1), {}, false); },
                   "as many arms in each table"));
  BatchRequest whole = open_request();
  arm.table = 0;
  CHECK(is_refused([&] { whole.add(arm); }, "where scopes are divided"));
}

TEST(request_refuses_a_fusion_that_does_not_fit_its_arms) {
  BatchRequest request = open_request();
  request.add(lexical_arm());
  request.add(dense_arm());
  CHECK(is_refused([&] { request.set_fusion(fusion_of(1), {}, false); }, "one weight an arm"));
  CHECK(is_refused([&] { request.set_fusion(fusion_of(2, Fusion::Kind::kNone), {}, false); },
                   "a fusion for several arms"));
  Fusion without_scales = fusion_of(2);
  without_scales.scales.clear();
  CHECK(is_refused([&] { request.set_fusion(without_scales, {}, false); }, "one scale an arm"));
}

TEST(request_that_an_execution_has_taken_changes_no_more) {
  BatchRequest request = open_request();
  request.is_read = true;
  char const* const wish = "a request that no execution has taken";
  std::vector<std::string> const values{encoded("a")};
  CHECK(is_refused([&] { request.add(lexical_arm()); }, wish));
  CHECK(is_refused([&] { request.add(dense_arm()); }, wish));
  CHECK(is_refused([&] { request.add(listed_arm()); }, wish));
  CHECK(is_refused([&] { request.set_fusion(fusion_of(0), {}, false); }, wish));
  CHECK(is_refused([&] { request.divide(0, values); }, wish));
  CHECK(is_refused([&] { request.set_filters({}, request.filter_of); }, wish));
}

bool is_same(DenseQuery const& a, DenseQuery const& b) {
  return std::equal(a.padded.begin(), a.padded.end(), b.padded.begin(), b.padded.end()) &&
         a.inverse_norm == b.inverse_norm;
}

TEST(queries_are_prepared_alike_by_any_number_of_threads_and_the_absent_are_missing) {
  Rng rng(331);
  constexpr std::uint32_t kDim = 70;
  constexpr std::size_t kMany = 400;  // enough for several threads
  std::vector<float> values(kMany * kDim);
  for (float& one : values) one = static_cast<float>(rng.unit() - 0.5);
  std::vector<std::uint8_t> present(kMany);
  for (auto& one : present) one = rng.below(5) != 0;
  auto const few = prepare_queries(values.data(), kMany, kDim, present, "vectors", 1);
  auto const many = prepare_queries(values.data(), kMany, kDim, present, "vectors", 4);
  for (std::size_t q = 0; q < kMany; ++q) {
    CHECK_EQ((*few)[q].inverse_norm != 0.0f, present[q] != 0);
    CHECK_EQ((*few)[q].padded.empty(), present[q] == 0);
    CHECK(is_same((*few)[q], (*many)[q]));
    if (present[q] == 0) continue;
    auto const alone = prepare_queries(values.data() + q * kDim, 1, kDim, {}, "vectors", 1);
    CHECK(is_same((*few)[q], (*alone)[0]));
    CHECK_EQ((*few)[q].padded.size(), 96u);
    for (std::size_t i = 0; i < 96; ++i)
      CHECK_EQ((*few)[q].padded[i], i < kDim ? values[q * kDim + i] : 0.0f);
  }
}

TEST(request_lists_documents_by_query) {
  std::vector<std::int64_t> const offsets{0, 2, 2, 3};
  std::vector<std::uint32_t> const segment{1, 0, 2};
  std::vector<Row> const row{7, 8, 9};
  std::vector<float> const score{0.5f, 0.25f, 2.0f};
  auto const listed = listed_by_query(kQueries, offsets, segment, row, score);
  CHECK_EQ(listed.size(), kQueries);
  CHECK_EQ(listed[0].size(), std::size_t{2});
  CHECK(listed[1].empty());
  CHECK_EQ(listed[2].size(), std::size_t{1});
  CHECK(listed[0][1].doc == (DocRef{0, 8}));
  CHECK_EQ(listed[0][1].score, 0.25f);
  CHECK(listed[2][0].doc == (DocRef{2, 9}));
  auto const without = listed_by_query(kQueries, offsets, segment, row, {});
  CHECK_EQ(without[2][0].score, 0.0f);
  CHECK(
      is_refused([&] { listed_by_query(kQueries, offsets, std::span(segment).first(2), row, {}); },
                 "one row a document"));
  CHECK(is_refused(
      [&] { listed_by_query(kQueries, offsets, segment, row, std::span(score).first(2)); },
      "one score a document"));
  CHECK(is_refused([&] { listed_by_query(kQueries + 1, offsets, segment, row, score); },
                   "rising offsets"));
}

TEST(request_queries_say_how_they_are_made) {
  TextQuery const phrase = TextQuery::phrase("a b", 3);
  CHECK(phrase.kind == TextQuery::Kind::kPhrase);
  CHECK_EQ(phrase.text, std::string("a b"));
  CHECK_EQ(phrase.slop, 3u);
  CHECK(TextQuery::of_text("a").kind == TextQuery::Kind::kText);
  CHECK(TextQuery::prefix("a", 0).kind == TextQuery::Kind::kPrefix);
  TextQuery const boosted = TextQuery::boosted(2.5, phrase);
  CHECK(boosted.kind == TextQuery::Kind::kBoost);
  CHECK_EQ(boosted.boost, 2.5);
  CHECK_EQ(boosted.children.at(0).text, std::string("a b"));
  CHECK(TextQuery::all({phrase}).kind == TextQuery::Kind::kAll);
  TextQuery const any = TextQuery::any({TextQuery::of_text("c"), boosted});
  CHECK(any.kind == TextQuery::Kind::kAny);
  CHECK_EQ(any.children.size(), std::size_t{2});
  CHECK_EQ(any.nesting, 2);
}

TEST(request_queries_nest_32_deep_and_no_deeper) {
  TextQuery query = TextQuery::of_text("a");
  for (int depth = 0; depth < 32; ++depth)
    query = depth % 2 == 0 ? TextQuery::all({query}) : TextQuery::boosted(1.0, query);
  CHECK_EQ(query.nesting, 32);
  char const* const wish = "text: expected queries nested at most 32 deep, got more";
  CHECK(is_refused([&] { TextQuery::any({TextQuery::of_text("b"), query}); }, wish));
  CHECK(is_refused([&] { TextQuery::boosted(2.0, query); }, wish));
}

}  // namespace
}  // namespace hyrecall::testing
