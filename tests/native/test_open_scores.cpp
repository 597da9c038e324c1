// Pools that lack scores are fused as if they had all of them, and a bound that is too low is seen.
#include <algorithm>
#include <bit>
#include <vector>

#include "engine/fusion/fusion.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::uint32_t kThreadRows = 9;
constexpr std::size_t kDense = 1;  // the arm whose scores are open

struct OpenCase {
  BatchRequest request;
  QueryCandidates pool;  // with all scores
  std::vector<std::uint8_t> is_open;
  float last_listed = 1.0f;
};

float open_cosine(Rng& rng) {
  return static_cast<float>(rng.unit() * 1.6 - 0.8);
}

// The list of an arm: the best of the documents that are listed and have a score.
std::vector<std::uint32_t> open_list(QueryCandidates const& pool, std::size_t n_found,
                                     std::size_t arm) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t doc = 0; doc < n_found; ++doc)
    if (pool.scores[2 * doc + arm] != kNoScore) out.push_back(doc);
  std::stable_sort(out.begin(), out.end(), [&](std::uint32_t a, std::uint32_t b) {
    return pool.scores[2 * a + arm] > pool.scores[2 * b + arm];
  });
  return out;
}

Fusion open_fusion(Rng& rng) {
  Fusion out;
  out.kind = std::array{FusionKind::kWeightedSum, FusionKind::kWeightedSum, FusionKind::kMax,
                        FusionKind::kRrf}[rng.below(std::size_t{4})];
  out.weights = {0.25 + rng.unit(), rng.below(8) == 0 ? 0.0 : 0.25 + rng.unit()};
  auto const scale =
      std::array{FusionScale::kMinmax, FusionScale::kMinmax,       FusionScale::kNone,
                 FusionScale::kUnit,   FusionScale::kDistribution, FusionScale::kClip}[rng.below(
          std::size_t{6})];
  out.scales = {FusionScale::kMinmax, scale};
  if (out.kind == FusionKind::kWeightedSum && rng.below(2) == 0) out.balance = 0.85;
  return out;
}

// Threads of a few rows; the documents of the lists come first, the others are near them.
OpenCase random_open_case(Rng& rng) {
  OpenCase out;
  BatchRequest& request = out.request;
  request.n_queries = 1;
  request.lexical.resize(1);
  request.dense.resize(1);
  request.fusion = open_fusion(rng);
  request.evidence = Evidence{.neighbours = {0.1 + rng.unit(), 0.05 + rng.unit() / 2},
                              .thread = rng.below(3) == 0 ? 0.0 : rng.unit(),
                              .length = rng.below(3) == 0 ? 0.0 : rng.unit()};
  if (rng.below(3) == 0) request.evidence->prior = Prior{};
  request.limit = 1 + rng.below(std::size_t{6});
  request.offset = rng.below(std::size_t{3});
  std::uint32_t const n_threads = 2 + rng.below(8u), n = n_threads * kThreadRows;
  std::vector<std::uint32_t> place_of;  // by document
  for (bool const is_found : {true, false}) {
    for (std::uint32_t place = 0; place < n; ++place)
      if ((place % 4 == 1) == is_found) place_of.push_back(place);
  }
  auto const n_found = static_cast<std::uint32_t>((n + 2) / 4);
  std::vector<std::uint32_t> doc_at(n);
  for (std::uint32_t doc = 0; doc < n; ++doc) doc_at[place_of[doc]] = doc;

  QueryCandidates& pool = out.pool;
  PoolEvidence& evidence = pool.evidence.emplace();
  evidence.n_found = n_found;
  evidence.length_shares = {rng.below(3) == 0 ? 0.5 : 1.0};
  out.is_open.assign(n, 0);
  float last = 1.0f;
  std::vector<float> of_threads;
  for (std::uint32_t thread = 0; thread < n_threads; ++thread)
    of_threads.push_back(static_cast<float>(rng.unit() * 4.0));
  for (std::uint32_t doc = 0; doc < n; ++doc) {
    std::uint32_t const place = place_of[doc], thread = place / kThreadRows;
    bool const is_found = doc < n_found;
    bool const is_hidden = !is_found && rng.below(4) == 0;
    float cosine = open_cosine(rng);
    if (is_found) last = std::min(last, cosine);
    if (!is_found && !is_hidden) cosine = std::min(cosine, last);
    bool const has_vector = is_found || rng.below(8) != 0;
    pool.docs.push_back({static_cast<Seq>(place), {0, place}});
    pool.scores.push_back(rng.below(3) == 0 ? kNoScore : static_cast<float>(rng.unit() * 8.0));
    pool.scores.push_back(has_vector ? cosine : kNoScore);
    out.is_open[doc] = !is_found && has_vector ? 1 : 0;
    evidence.hidden.push_back(is_hidden ? 1 : 0);
    evidence.threads.push_back(of_threads[thread]);
    evidence.lengths.push_back(rng.below(6) == 0 ? kNone32 : 1 + rng.below(400u));
    if (request.evidence->prior) evidence.priors.push_back(rng.unit() - 0.5);
    for (std::uint32_t distance = 1; distance <= 2; ++distance) {
      std::uint32_t const in_thread = place % kThreadRows;
      evidence.near.push_back(in_thread >= distance ? doc_at[place - distance] : kNone32);
      evidence.near.push_back(in_thread + distance < kThreadRows ? doc_at[place + distance]
                                                                 : kNone32);
    }
  }
  for (std::size_t arm = 0; arm < 2; ++arm) pool.lists.push_back(open_list(pool, n_found, arm));
  out.last_listed = last;
  return out;
}

// How much too low the bounds are, which a right engine has not.
struct TooLow {
  float most = 0.0f;
  float most_of_hidden = 0.0f;
};

struct OpenReply {
  bool is_same = false;
  std::size_t n_open = 0, n_closed = 0;
};

bool same_double(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// Whether the list of a pool that lacks scores is that of the whole pool, bit for bit.
OpenReply fuse_open(OpenCase const& from, TooLow const& wrong) {
  OpenReply out;
  Fuser whole(from.request), lacking(from.request);
  FusedList const& expected = whole.fuse(from.pool);
  QueryCandidates pool = from.pool;
  OpenScores open;
  open.arm = kDense;
  open.is_open = from.is_open;
  open.most = from.last_listed - wrong.most;
  open.most_of_hidden = 1.0f - wrong.most_of_hidden;
  for (std::size_t doc = 0; doc < open.is_open.size(); ++doc) {
    if (open.is_open[doc] == 0) continue;
    out.n_open += 1;
    pool.scores[2 * doc + kDense] = kNoScore;
  }
  open.close = [&](std::span<std::uint32_t const> docs) {
    CHECK(std::is_sorted(docs.begin(), docs.end()));
    out.n_closed += docs.size();
    for (std::uint32_t const doc : docs)
      pool.scores[2 * std::size_t{doc} + kDense] = from.pool.scores[2 * std::size_t{doc} + kDense];
  };
  FusedList const& found = lacking.fuse(pool, open);
  out.is_same = found.docs.size() == expected.docs.size();
  std::size_t const n_addends = from.request.evidence->n_addends();
  for (std::size_t i = 0; out.is_same && i < found.docs.size(); ++i) {
    std::size_t const doc = found.docs[i].doc;
    out.is_same = doc == expected.docs[i].doc &&
                  same_double(found.docs[i].score, expected.docs[i].score) &&
                  pool.scores[2 * doc + kDense] == from.pool.scores[2 * doc + kDense];
    for (std::size_t at = doc * n_addends; out.is_same && at < (doc + 1) * n_addends; ++at)
      out.is_same = same_double(found.evidence.addends[at], expected.evidence.addends[at]);
    for (std::size_t at = 2 * doc; out.is_same && at < 2 * doc + 2; ++at)
      out.is_same = found.evidence.speakers[at] == expected.evidence.speakers[at];
  }
  return out;
}

constexpr int kRounds = 4000;

TEST(evidence_with_scores_computed_on_demand_is_that_of_all_scores) {
  Rng rng(71);
  std::size_t n_open = 0, n_closed = 0;
  for (int round = 0; round < kRounds; ++round) {
    OpenReply const one = fuse_open(random_open_case(rng), {});
    CHECK(one.is_same);
    n_open += one.n_open;
    n_closed += one.n_closed;
  }
  CHECK(n_closed < n_open * 3 / 4);  // else it does not pay, and this test says little
}

TEST(evidence_bounds_that_are_too_low_are_caught) {
  for (TooLow const& wrong : {TooLow{.most = 0.4f}, TooLow{.most_of_hidden = 1.5f}}) {
    Rng rng(72);
    bool is_caught = false;
    for (int round = 0; round < kRounds && !is_caught; ++round)
      is_caught = !fuse_open(random_open_case(rng), wrong).is_same;
    CHECK(is_caught);
  }
}

}  // namespace
}  // namespace hyrecall::testing
