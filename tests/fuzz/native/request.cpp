// Structured queries (nested, phrases, prefixes, boosts, filters, floors, evidence-free fusions) on
// a small index, and the statistics and candidates that another process may have sent: taken,
// merged, or refused.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "engine/part_arrays.hpp"
#include "engine/recall.hpp"
#include "fuzz/native/fuzz.hpp"
#include "native/corpus.hpp"

using namespace hyrecall;
using namespace hyrecall::fuzzing;

namespace {

struct Source {
  std::uint8_t const* at;
  std::uint8_t const* end;
  std::uint8_t byte() { return at < end ? *at++ : 0; }
  std::uint32_t below(std::uint32_t n) {
    return n == 0 ? 0 : (n > 255 ? byte() << 8 | byte() : byte()) % n;
  }
  std::int64_t number() {
    std::uint8_t const how = byte();
    if (how < 210) return how - 5;
    static std::int64_t const odd[] = {INT64_MIN, INT64_MAX,       -1,         0,
                                       1LL << 62, (1LL << 62) - 1, 0xffffffff, 1LL << 31};
    return odd[how % 8];
  }
  double real() {
    std::uint8_t const how = byte();
    static double const odd[] = {0.0,    -0.0,         1.0,      -1.0,      1e300,   1e-300,
                                 5e-324, std::nan(""), INFINITY, -INFINITY, 0x1p-20, 0x1p20,
                                 1e-45,  3.4e38,       0.5,      60};
    if (how < 32) return odd[how % 16];
    return (how - 128) / 32.0;
  }
  std::string text() {
    static char const* const words[] = {"w0", "w1",    "w2", "w3", "w",    "absent",
                                        " ",  "w1 w0", "é",  "W2", "\xff", "w4 w4 w4"};
    std::string s;
    for (std::uint32_t n = below(5); n > 0; --n) {
      std::uint8_t const b = byte();
      if (b < 220) {
        s += words[b % 12];
        s += ' ';
      } else
        s += static_cast<char>(b);
    }
    return s;
  }
};
TextQuery query_from(Source& s, int depth) {
  std::uint8_t const how = s.byte();
  if (depth > 0 && how < 110) {
    std::vector<TextQuery> children;
    for (std::uint32_t n = s.below(how % 16 == 0 ? 40 : 4); n > 0; --n)
      children.push_back(query_from(s, depth - 1));
    if (how % 5 == 0) children.push_back(TextQuery::excluded(query_from(s, 0)));
    if (how % 3 == 0) return TextQuery::all(std::move(children));
    if (how % 3 == 1) return TextQuery::any(std::move(children));
    return TextQuery::boosted(s.real(), query_from(s, depth - 1));
  }
  if (how % 3 == 0) return TextQuery::phrase(s.text(), how > 250 ? 0xffffffff : s.below(6));
  if (how % 6 == 1) return TextQuery::prefix(s.text(), how > 250 ? 0xffffffff : s.below(6));
  if (how % 6 == 4) return TextQuery::fuzzy(s.text(), 1 + s.below(2));
  TextQuery q = TextQuery::of_text(s.text());
  if (how > 200)
    for (std::uint32_t n = s.below(4); n > 0; --n)
      q.added.push_back(
          {"w" + std::to_string(n), std::ldexp(1.0, static_cast<int>(s.below(41)) - 20)});
  return q;
}
Snapshot const& world() {
  static Snapshot const made = [] {
    Snapshot out;
    testing::Rng rng(11);
    Seq seq = 0;
    for (int k = 0; k < 3; ++k) {
      testing::Documents docs = testing::random_documents(rng, k == 1 ? 1 : 90, 3, 6);
      for (Seq& s : docs.seqs) s = seq++;
      auto const segment = testing::segment_of(docs);
      SegmentView view(segment);
      std::vector<Row> const dead{k == 1 ? std::vector<Row>{} : std::vector<Row>{3, 17, 60}};
      out.segments.push_back(std::make_shared<SegmentView const>(view.without(dead)));
    }
    return out;
  }();
  return made;
}
template <typename T>
std::vector<T> take(Source& s, std::vector<T> from) {  // changed in a few places, or cut, or longer
  switch (s.byte() % 6) {
    case 0:
      break;
    case 1:
      for (std::uint32_t n = s.below(4); n > 0 && !from.empty(); --n) {
        auto& x = from[s.below(static_cast<std::uint32_t>(from.size()))];
        if constexpr (std::is_floating_point_v<T>)
          x = static_cast<T>(s.real());
        else
          x = static_cast<T>(s.number());
      }
      break;
    case 2:
      if (!from.empty()) from.resize(s.below(static_cast<std::uint32_t>(from.size()) + 1));
      break;
    case 3:
      for (std::uint32_t n = s.below(9); n > 0; --n) {
        if constexpr (std::is_floating_point_v<T>)
          from.push_back(static_cast<T>(s.real()));
        else
          from.push_back(static_cast<T>(s.number()));
      }
      break;
    default:
      break;
  }
  from.shrink_to_fit();
  return from;
}
template <typename T>
struct Tight {
  std::unique_ptr<T[]> own;
  std::size_t n;
  explicit Tight(std::vector<T> const& v) : own(new T[v.size()]), n(v.size()) {
    std::copy(v.begin(), v.end(), own.get());
  }
  operator std::span<T const>() const { return {own.get(), n}; }
};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 6) return 0;
  Source s{data, data + size};
  try {
    BatchRequest request;
    request.n_queries = 1 + s.below(3);
    Scope scope;
    for (int c = 0; c < 3; ++c)
      if (s.byte() % 4 != 0)
        scope.cells.push_back(testing::encoded("cell" + std::to_string(1000 + c)));
    request.scopes.push_back(std::make_shared<Scope const>(scope));
    request.scope_of.assign(request.n_queries, 0);
    request.filter_of.assign(request.n_queries, kNone32);
    std::uint32_t const n_arms = 1 + s.below(2);
    for (std::uint32_t a = 0; a < n_arms; ++a) {
      LexicalRequest arm;
      arm.name = "text" + std::to_string(a);
      arm.analyzer = testing::word_analyzer();
      static Bm25Variant const variants[] = {
          Bm25Variant::kLucene, Bm25Variant::kOkapi, Bm25Variant::kFts5, Bm25Variant::kRobertson,
          Bm25Variant::kAtire,  Bm25Variant::kPlus,  Bm25Variant::kLong};
      arm.bm25 = {variants[s.below(7)], s.byte() / 64.0, s.byte() / 255.0, 0.5};
      for (std::size_t q = 0; q < request.n_queries; ++q) {
        if (s.byte() % 8 == 0)
          arm.queries.emplace_back();
        else
          arm.queries.emplace_back(query_from(s, 5));
      }
      if (s.byte() % 4 == 0) arm.floor = {static_cast<float>(s.real()), true, s.byte() % 2 == 0};
      request.add(std::move(arm));
    }
    request.depth = s.byte() % 4 == 0 ? 1 + s.below(5) : 200;
    request.limit = s.byte() % 4 == 0 ? s.below(5) : 100;
    request.offset = s.byte() % 4 == 0 ? s.below(200) : 0;
    Fusion fusion;
    fusion.kind = n_arms == 1 && s.byte() % 2 == 0
                      ? Fusion::Kind::kNone
                      : std::vector{Fusion::Kind::kRrf, Fusion::Kind::kWeightedSum,
                                    Fusion::Kind::kMax}[s.below(3)];
    for (std::uint32_t a = 0; a < n_arms; ++a) {
      fusion.weights.push_back(std::abs(s.byte() / 32.0));
      fusion.scales.push_back(static_cast<Fusion::Scale>(s.below(6)));
    }
    fusion.rank_constant = 1 + s.byte();
    request.set_fusion(fusion, {}, s.byte() % 2 == 0);
    Execution const execution(world(), request);
    Statistics const& told = execution.statistics();
    auto const pools = execution.candidates(told);
    std::vector<std::vector<QueryCandidates> const*> const parts{&pools};
    ReplyArrays const one = merge(request, parts), two = execution.hits(told).arrays;
    REQUIRE(one.offsets == two.offsets && one.row == two.row && one.segment == two.segment);
    for (std::size_t i = 0; i < one.score.size(); ++i)
      REQUIRE(std::memcmp(&one.score[i], &two.score[i], 8) == 0);
    std::set<std::string> const cells(scope.cells.begin(), scope.cells.end());
    for (std::size_t q = 0; q < request.n_queries; ++q) {
      for (auto i = one.offsets[q]; i < one.offsets[q + 1]; ++i) {
        auto const& view = *world().segments[one.segment[i]];
        REQUIRE(one.row[i] < view.segment().n_rows() && view.live()[one.row[i]]);
        execution.require_authorised(q, {one.segment[i], one.row[i]});
        REQUIRE(!std::isnan(one.score[i]));
        if (i > one.offsets[q]) REQUIRE(one.score[i - 1] >= one.score[i]);
      }
      REQUIRE(one.offsets[q + 1] - one.offsets[q] <=
              static_cast<std::int64_t>(request.limit - (is_planted() && request.limit > 3)));
    }
    // What travels: the same comes out where nothing was changed, else an error or something to
    // merge.
    bool const is_changed = s.byte() % 4 != 0;
    auto const statistics = arrays_of(told);
    auto const candidates = arrays_of(pools);
    if (!is_changed) {
      Tight a(statistics.numbers), b(statistics.freq_ends), c(statistics.freqs),
          d(statistics.thread_ends), e(statistics.thread_freqs);
      Statistics const again =
          to_statistics({a, b, c, d, e}, request.lexical.size(), request.n_queries);
      REQUIRE(arrays_of(again).freqs == statistics.freqs);
    }
    if (is_changed) {
      try {
        Tight a(take(s, statistics.numbers)), b(take(s, statistics.freq_ends)),
            c(take(s, statistics.freqs)), d(take(s, statistics.thread_ends)),
            e(take(s, statistics.thread_freqs));
        std::size_t const arms =
            s.byte() % 16 == 0 ? static_cast<std::size_t>(s.number()) : request.lexical.size();
        std::size_t const queries =
            s.byte() % 16 == 0 ? static_cast<std::size_t>(s.number()) : request.n_queries;
        Statistics const forged = to_statistics({a, b, c, d, e}, arms, queries);
        Statistics const* const both[] = {&told, &forged};
        Statistics const sum = add_statistics(both);
        auto const with = execution.candidates(sum);
        std::vector<std::vector<QueryCandidates> const*> const from{&with};
        (void)merge(request, from);
      } catch (Error const&) {
      } catch (std::exception const& e) {
        if (says()) std::fprintf(stderr, "%s\n", e.what());
      }
    }
    Tight a(take(s, candidates.doc_ends)), b(take(s, candidates.seq));
    Tight c(take(s, candidates.segment)), d(take(s, candidates.row));
    Tight e(take(s, candidates.scores));
    Tight f(take(s, candidates.list_ends));
    Tight g(take(s, candidates.listed));
    CandidateArrays<BorrowedValues> arrays;
    arrays.doc_ends = a;
    arrays.seq = b;
    arrays.segment = c;
    arrays.row = d;
    arrays.scores = e;
    arrays.list_ends = f;
    arrays.listed = g;
    auto const forged = to_candidates(arrays, request);
    std::vector<std::vector<QueryCandidates> const*> const from{&pools, &forged};
    ReplyArrays const reply = merge(request, from);
    REQUIRE(reply.offsets.size() == request.n_queries + 1);
  } catch (Error const& e) {
    if (says()) std::fprintf(stderr, "%s\n", e.what());
  }
  return 0;
}
