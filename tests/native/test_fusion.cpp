// fuse() against its plain definition.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/formulas.hpp"
#include "engine/fusion/fusion.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

struct Example {
  BatchRequest request;
  QueryCandidates pool;
};

Example random_example(Rng& rng, Fusion::Kind kind) {
  Example out;
  std::size_t const n_docs = rng.below(std::size_t{25});
  out.request.limit = n_docs;
  // Arms only count here: lexical, dense and listed ones, at least one.
  out.request.lexical.resize(rng.below(std::size_t{3}));
  out.request.dense.resize(rng.below(std::size_t{3}));
  out.request.listed.resize(rng.below(std::size_t{2}) + (out.request.n_arms() == 0 ? 1 : 0));
  std::size_t const n_arms = out.request.n_arms();
  out.request.fusion.kind = kind;
  out.request.fusion.rank_constant = 1.0 + rng.below(60);
  using enum Fusion::Scale;
  for (std::size_t a = 0; a < n_arms; ++a) {
    out.request.fusion.scales.push_back(
        std::array{kNone, kMinmax, kDistribution, kBest, kClip, kUnit}[rng.below(std::size_t{6})]);
  }
  out.request.fusion.complete = rng.below(2) == 0;
  out.request.fusion.ranks_by_place = rng.below(4) == 0;
  for (std::size_t a = 0; a < n_arms; ++a)
    out.request.fusion.weights.push_back(rng.below(4) * 0.35);
  std::size_t const mute = rng.below(3 * n_arms);   // often an arm scores nothing
  std::size_t const blank = rng.below(3 * n_arms);  // or lists nothing of what it scores
  for (std::size_t d = 0; d < n_docs; ++d) {
    out.pool.docs.push_back(
        {static_cast<Seq>(rng.below(1000) * 32 + static_cast<Seq>(d)), 0, static_cast<Row>(d)});
    for (std::size_t a = 0; a < n_arms; ++a) {
      bool const is_missing = a == mute || rng.below(5) == 0;
      out.pool.scores.push_back(is_missing ? kNoScore : static_cast<float>(rng.below(9)) - 3.0f);
    }
  }
  for (std::size_t a = 0; a < n_arms; ++a) {
    std::vector<std::uint32_t> list;
    for (std::uint32_t d = 0; d < n_docs; ++d) {
      bool const is_listed = out.pool.scores[d * n_arms + a] != kNoScore && rng.below(2) == 0;
      if (is_listed && a != blank) list.push_back(d);
    }
    std::sort(list.begin(), list.end(), [&](std::uint32_t x, std::uint32_t y) {
      float const sx = out.pool.scores[x * n_arms + a];
      float const sy = out.pool.scores[y * n_arms + a];
      return sx != sy ? sx > sy : out.pool.docs[x].seq < out.pool.docs[y].seq;
    });
    out.pool.lists.push_back(std::move(list));
  }
  return out;
}

// The documents whose score in an arm counts: its list by rank, then the others by score. Where the
// arm lists nothing none does.
std::vector<std::uint32_t> counted(Example const& example, std::size_t arm) {
  std::size_t const n_arms = example.request.n_arms();
  auto const score = [&](std::uint32_t d) { return example.pool.scores[d * n_arms + arm]; };
  std::vector<std::uint32_t> docs = example.pool.lists[arm];
  if (docs.empty()) return docs;
  auto const n_listed = static_cast<std::ptrdiff_t>(docs.size());
  for (std::uint32_t d = 0; example.request.fusion.complete && d < example.pool.docs.size(); ++d) {
    bool const is_listed =
        std::find(docs.begin(), docs.begin() + n_listed, d) != docs.begin() + n_listed;
    if (score(d) != kNoScore && !is_listed) docs.push_back(d);
  }
  std::sort(docs.begin() + n_listed, docs.end(),
            [&](std::uint32_t x, std::uint32_t y) { return score(x) > score(y); });
  return docs;
}

// What the scores of `counted` are worth in an arm, in the same order.
std::vector<double> scaled(Example const& example, std::size_t arm) {
  std::vector<double> values;
  for (std::uint32_t d : counted(example, arm))
    values.push_back(example.pool.scores[d * example.request.n_arms() + arm]);
  auto const n = static_cast<double>(values.size());
  double low = INFINITY, high = -INFINITY, sum = 0.0, squares = 0.0;
  for (double x : values) {
    low = std::min(low, x);
    high = std::max(high, x);
    sum += x;
  }
  double const mean = sum / n;
  for (double x : values) squares += (x - mean) * (x - mean);
  double const deviation = std::sqrt(squares / n);
  for (double& x : values) {
    switch (example.request.fusion.scales[arm]) {
      case Fusion::Scale::kClip:
        x = std::min(std::max(x, 0.0), 1.0);
        break;
      case Fusion::Scale::kUnit:
        x = 0.5 * (1.0 + x);
        break;
      case Fusion::Scale::kDistribution:
        x = deviation == 0.0 ? 1.0 : (x - (mean - 3.0 * deviation)) / (6.0 * deviation);
        break;
      case Fusion::Scale::kMinmax:
        x = high == low ? 1.0 : (x - low) / (high - low);
        break;
      case Fusion::Scale::kBest:
        x = high > 0.0 && x > 0.0 ? x / high : 0.0;
        break;
      case Fusion::Scale::kNone:
        break;
    }
  }
  return values;
}

// The arms' weights. With a balance the dense arms share clamp(balance + mean lexical - mean
// dense), the lexical ones the rest, each kind by its weights; an arm that scored nothing has no
// part in it, and a kind that scored nothing leaves all to the other.
std::vector<double> plain_weights(Example const& example) {
  BatchRequest const& request = example.request;
  std::vector<double> weights = request.fusion.weights;
  std::size_t const n_lexical = request.lexical.size(), n_dense = request.dense.size();
  if (!request.fusion.balance || n_lexical == 0 || n_dense == 0) return weights;
  auto const is_lexical = [&](std::size_t arm) { return arm < n_lexical; };
  double of_kind[2] = {0.0, 0.0}, mean[2] = {0.0, 0.0};  // dense, lexical
  for (std::size_t arm = 0; arm < n_lexical + n_dense; ++arm) {
    if (!counted(example, arm).empty()) of_kind[is_lexical(arm)] += weights[arm];
  }
  for (std::size_t arm = 0; arm < n_lexical + n_dense; ++arm) {
    double const all = of_kind[is_lexical(arm)];
    weights[arm] = all > 0.0 ? weights[arm] / all : 0.0;
    std::vector<double> const values = scaled(example, arm);
    double sum = 0.0;
    for (double x : values) sum += x;
    if (!values.empty())
      mean[is_lexical(arm)] += weights[arm] * (sum / static_cast<double>(values.size()));
  }
  double share = std::min(std::max(*request.fusion.balance + mean[1] - mean[0], 0.0), 1.0);
  if (of_kind[1] == 0.0) share = 1.0;
  if (of_kind[0] == 0.0) share = 0.0;
  for (std::size_t arm = 0; arm < n_lexical + n_dense; ++arm)
    weights[arm] *= is_lexical(arm) ? 1.0 - share : share;
  return weights;
}

// The score of one document by the words of docs/scoring.md.
double plain_score(Example const& example, std::uint32_t doc) {
  Fusion const& fusion = example.request.fusion;
  std::size_t const n_arms = example.request.n_arms();
  std::vector<double> const weights = plain_weights(example);
  std::vector<double> parts;
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    bool const by_rank = fusion.kind == Fusion::Kind::kRrf;
    std::vector<std::uint32_t> const docs =
        by_rank ? example.pool.lists[arm] : counted(example, arm);
    auto const place = std::find(docs.begin(), docs.end(), doc) - docs.begin();
    if (place == static_cast<std::ptrdiff_t>(docs.size())) continue;
    if (by_rank) {
      auto const score = [&](std::uint32_t d) { return example.pool.scores[d * n_arms + arm]; };
      auto const n_better = std::count_if(docs.begin(), docs.end(),
                                          [&](std::uint32_t d) { return score(d) > score(doc); });
      auto const rank = fusion.ranks_by_place ? place + 1 : n_better + 1;
      parts.push_back(weights[arm] / (fusion.rank_constant + static_cast<double>(rank)));
    } else {
      parts.push_back(weights[arm] * scaled(example, arm)[static_cast<std::size_t>(place)]);
    }
  }
  std::sort(parts.rbegin(), parts.rend());
  if (fusion.kind == Fusion::Kind::kMax) {
    if (parts.empty()) return 0.0;
    return parts.size() == n_arms ? parts.front() : std::max(parts.front(), 0.0);
  }
  double sum = 0.0;
  for (double part : parts) sum += part;
  return sum;
}

TEST(fuse_equals_the_plain_definition) {
  Rng rng(13);
  std::size_t n_again = 0;
  for (Fusion::Kind kind : {Fusion::Kind::kRrf, Fusion::Kind::kWeightedSum, Fusion::Kind::kMax}) {
    for (int round = 0; round < 400; ++round) {
      Example const example = random_example(rng, kind);
      Fuser fuser(example.request);
      Example const other = random_example(rng, kind);
      if (other.request.n_arms() == example.request.n_arms()) {
        fuser.fuse(other.pool);  // nothing of it may stay
        ++n_again;
      }
      FusedList const& fused = fuser.fuse(example.pool);
      CHECK_EQ(fused.docs.size(), example.pool.docs.size());
      for (std::size_t i = 0; i < fused.docs.size(); ++i) {
        CHECK_EQ(fused.docs[i].score, plain_score(example, fused.docs[i].doc));
        if (i == 0) continue;
        FusedDoc const& before = fused.docs[i - 1];
        bool const in_order =
            before.score != fused.docs[i].score
                ? before.score > fused.docs[i].score
                : example.pool.docs[before.doc].seq < example.pool.docs[fused.docs[i].doc].seq;
        CHECK(in_order);
      }
    }
  }
  CHECK(n_again > 100);
}

TEST(fuse_with_a_limit_gives_the_beginning_of_the_whole_list) {
  Rng rng(17);
  for (int round = 0; round < 400; ++round) {
    Example example = random_example(rng, Fusion::Kind::kRrf);
    example.request.normalize = rng.below(2) == 0;
    FusedList const whole = Fuser(example.request).fuse(example.pool);
    example.request.offset = rng.below(std::size_t{4});
    example.request.limit = rng.below(std::size_t{12});
    FusedList const part = Fuser(example.request).fuse(example.pool);
    std::size_t const wanted = example.request.offset + example.request.limit;
    CHECK_EQ(part.docs.size(), std::min(wanted, whole.docs.size()));
    for (std::size_t i = 0; i < part.docs.size(); ++i) {
      CHECK_EQ(part.docs[i].doc, whole.docs[i].doc);
      CHECK_EQ(part.docs[i].score, whole.docs[i].score);
    }
    CHECK(part.scales == whole.scales);
  }
}

TEST(fuse_with_a_balance_weighs_each_query_by_what_its_arms_tell_apart) {
  Rng rng(16);
  std::size_t n_between = 0;
  for (int round = 0; round < 1500; ++round) {
    Example example = random_example(rng, Fusion::Kind::kWeightedSum);
    BatchRequest& request = example.request;
    request.fusion.balance = std::array{0.0, 0.3, 0.5, 1.0, 2.0}[rng.below(std::size_t{5})];
    std::fill(request.fusion.scales.begin(), request.fusion.scales.end(), Fusion::Scale::kMinmax);
    std::size_t const n_arms = request.n_arms();
    FusedList const fused = Fuser(request).fuse(example.pool);
    std::vector<double> const weights = plain_weights(example);
    CHECK(std::equal(weights.begin(), weights.end(),
                     fused.scales.end() - 1 - static_cast<std::ptrdiff_t>(n_arms)));
    for (FusedDoc const& one : fused.docs) CHECK_EQ(one.score, plain_score(example, one.doc));
    if (request.lexical.empty() || request.dense.empty()) continue;
    double lexical = 0.0, dense = 0.0;
    for (std::size_t arm = 0; arm < request.lexical.size(); ++arm) lexical += weights[arm];
    for (std::size_t arm = 0; arm < request.dense.size(); ++arm)
      dense += weights[request.lexical.size() + arm];
    n_between += lexical > 0.1 && dense > 0.1;
  }
  CHECK(n_between > 100);
}

TEST(fuse_normalised_keeps_the_order_and_stays_in_the_unit_interval) {
  Rng rng(14);
  for (Fusion::Kind kind : {Fusion::Kind::kRrf, Fusion::Kind::kWeightedSum, Fusion::Kind::kMax}) {
    for (int round = 0; round < 200; ++round) {
      Example example = random_example(rng, kind);
      FusedList const raw = Fuser(example.request).fuse(example.pool);
      example.request.normalize = true;
      FusedList const scaled = Fuser(example.request).fuse(example.pool);
      CHECK_EQ(raw.docs.size(), scaled.docs.size());
      for (std::size_t i = 0; i < raw.docs.size(); ++i) {
        CHECK_EQ(raw.docs[i].doc, scaled.docs[i].doc);
        CHECK(scaled.docs[i].score >= 0.0 && scaled.docs[i].score <= 1.0);
      }
    }
  }
}

TEST(fuse_floor_cuts_below_and_a_strict_floor_cuts_at_its_value) {
  Rng rng(15);
  for (int round = 0; round < 200; ++round) {
    Example example = random_example(rng, Fusion::Kind::kRrf);
    FusedList const all = Fuser(example.request).fuse(example.pool);
    if (all.docs.empty()) continue;
    double const floor = all.docs[all.docs.size() / 2].score;
    for (bool strict : {false, true}) {
      example.request.min_fused = {floor, true, strict};
      auto const expected = std::count_if(all.docs.begin(), all.docs.end(), [&](FusedDoc const& d) {
        return strict ? d.score > floor : d.score >= floor;
      });
      CHECK_EQ(Fuser(example.request).fuse(example.pool).docs.size(),
               static_cast<std::size_t>(expected));
    }
  }
}

}  // namespace
}  // namespace hyrecall::testing
