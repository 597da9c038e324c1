#include "engine/fusion.hpp"

#include <algorithm>

namespace hyrecall {
namespace {

// An arm's scores in the pool in rank order: its list by rank, then (with completion) the others by
// (score desc, seq asc), of which seq decides nothing: equal scores are equal addends. Sums over
// them are rounded in this order, whatever the order of the pool.
std::vector<double> scores_in_rank_order(Pool const& pool, std::span<std::int32_t const> ranks,
                                         std::size_t arm, std::size_t n_arms, bool complete) {
  std::vector<double> scores;
  for (std::uint32_t doc : pool.lists[arm]) scores.push_back(pool.scores[doc * n_arms + arm]);
  auto const n_listed = static_cast<std::ptrdiff_t>(scores.size());
  for (std::size_t doc = 0; complete && doc < pool.docs.size(); ++doc) {
    std::size_t const at = doc * n_arms + arm;
    if (ranks[at] == 0 && pool.scores[at] != kNoScore) scores.push_back(pool.scores[at]);
  }
  std::sort(scores.begin() + n_listed, scores.end(), std::greater<>());
  return scores;
}

// What an arm's score is worth in WeightedSum, Max and DBSF, before its weight.
class ArmScale {
 public:
  ArmScale(Fusion const& fusion, Pool const& pool, std::span<std::int32_t const> ranks,
           std::size_t arm, std::size_t n_arms)
      : scale_(arm < fusion.scales.size() ? fusion.scales[arm] : Fusion::Scale::kNone) {
    for (std::size_t doc = 0; doc < pool.docs.size(); ++doc) {
      std::size_t const at = doc * n_arms + arm;
      if (pool.scores[at] == kNoScore || (!fusion.complete && ranks[at] == 0)) continue;
      double const score = pool.scores[at];
      low_ = any_ ? std::min(low_, score) : score;
      high_ = any_ ? std::max(high_, score) : score;
      any_ = true;
    }
    if (any_ && scale_ == Fusion::Scale::kDistribution) {
      std::vector<double> const scores =
          scores_in_rank_order(pool, ranks, arm, n_arms, fusion.complete);
      moments_ = moments(scores.data(), scores.size());
    }
  }
  double operator()(double score) const {
    switch (scale_) {
      case Fusion::Scale::kMinmax:
        return minmax_scale(score, low_, high_);
      case Fusion::Scale::kDistribution:
        return dbsf_scale(score, moments_);
      case Fusion::Scale::kBest:
        return best_scale(score, high_);
      case Fusion::Scale::kClip:
        return clip_scale(score);
      case Fusion::Scale::kUnit:
        return unit_scale(score);
      case Fusion::Scale::kNone:
        break;
    }
    return score;
  }
  // The two numbers that explain() scales with.
  std::pair<double, double> numbers() const {
    if (scale_ == Fusion::Scale::kDistribution) return {moments_.mean, moments_.deviation};
    return {low_, high_};
  }
  bool any() const { return any_; }
  // The most a document can get here: what normalize divides by.
  double best() const { return any_ ? std::max((*this)(high_), 0.0) : 0.0; }

 private:
  Fusion::Scale scale_;
  bool any_ = false;
  double low_ = 0.0;
  double high_ = 0.0;
  Moments moments_{0.0, 0.0};
};

// The weights of one query. With a balance those of the lexical and of the dense arms are shares of
// 1: what tells candidates apart counts, and an arm whose candidates all score near its best does
// not tell them apart.
std::vector<double> weights_of(Request const& request, Pool const& pool,
                               std::span<std::int32_t const> ranks,
                               std::vector<ArmScale> const& scales) {
  Fusion const& fusion = request.fusion;
  std::vector<double> weights = fusion.weights;
  std::size_t const n_arms = request.n_arms();
  weights.resize(n_arms, 1.0);
  if (!fusion.balance) return weights;
  std::size_t const n_lexical = request.lexical.size(), n_dense = request.dense.size();
  if (n_lexical == 0 || n_dense == 0) return weights;
  struct Kind {
    std::size_t begin, end;
    double weight = 0.0;  // of its arms that scored something
    double mean = 0.0;    // of their scaled scores, an arm as its weight
  };
  Kind lexical{0, n_lexical}, dense{n_lexical, n_lexical + n_dense};
  for (Kind* kind : {&lexical, &dense}) {
    for (std::size_t arm = kind->begin; arm < kind->end; ++arm)
      if (scales[arm].any()) kind->weight += weights[arm];
    for (std::size_t arm = kind->begin; arm < kind->end; ++arm) {
      weights[arm] = kind->weight > 0.0 ? weights[arm] / kind->weight : 0.0;
      if (!scales[arm].any()) continue;
      double sum = 0.0;
      std::vector<double> const scores =
          scores_in_rank_order(pool, ranks, arm, n_arms, fusion.complete);
      for (double score : scores) sum += scales[arm](score);
      kind->mean += weights[arm] * (sum / static_cast<double>(scores.size()));
    }
  }
  double share = dense_share(*fusion.balance, lexical.mean, dense.mean);
  if (lexical.weight == 0.0) share = 1.0;
  if (dense.weight == 0.0) share = 0.0;
  for (std::size_t arm = 0; arm < n_lexical; ++arm) weights[arm] *= 1.0 - share;
  for (std::size_t arm = dense.begin; arm < dense.end; ++arm) weights[arm] *= share;
  return weights;
}

double sum_largest_first(std::vector<double>& contributions) {
  std::sort(contributions.begin(), contributions.end(), std::greater<>());
  double sum = 0.0;
  for (double c : contributions) sum += c;
  return sum;
}

}  // namespace

std::vector<std::int32_t> ranks_of(Pool const& pool, std::size_t n_arms) {
  std::vector<std::int32_t> ranks(pool.docs.size() * n_arms, 0);
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    for (std::size_t i = 0; i < pool.lists[arm].size(); ++i) {
      ranks[pool.lists[arm][i] * n_arms + arm] = static_cast<std::int32_t>(i) + 1;
    }
  }
  return ranks;
}

FusedList fuse(Request const& request, Pool const& pool, std::span<std::int32_t const> ranks) {
  Fusion const& fusion = request.fusion;
  std::size_t const n_arms = request.n_arms();
  std::vector<ArmScale> scales;
  for (std::size_t arm = 0; arm < n_arms; ++arm)
    scales.emplace_back(fusion, pool, ranks, arm, n_arms);
  std::vector<double> const weights = weights_of(request, pool, ranks, scales);
  std::vector<double> bests;  // per arm, the largest contribution possible
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    if (fusion.kind == Fusion::Kind::kRrf) {
      bool const found = !pool.lists[arm].empty();
      bests.push_back(found ? rrf_term(weights[arm], fusion.rank_constant, 1) : 0.0);
    } else if (fusion.kind != Fusion::Kind::kNone) {
      bests.push_back(weights[arm] * scales[arm].best());
    }
  }
  std::vector<FusedDoc> fused;
  fused.reserve(pool.docs.size());
  std::vector<double> contributions;
  for (std::uint32_t doc = 0; doc < pool.docs.size(); ++doc) {
    contributions.clear();
    for (std::size_t arm = 0; arm < n_arms; ++arm) {
      std::size_t const at = doc * n_arms + arm;
      if (fusion.kind == Fusion::Kind::kRrf) {
        if (ranks[at] > 0)
          contributions.push_back(rrf_term(weights[arm], fusion.rank_constant, ranks[at]));
      } else if (pool.scores[at] != kNoScore && (fusion.complete || ranks[at] > 0)) {
        double const weight = fusion.kind == Fusion::Kind::kNone ? 1.0 : weights[arm];
        contributions.push_back(weight * (fusion.kind == Fusion::Kind::kNone
                                              ? static_cast<double>(pool.scores[at])
                                              : scales[arm](pool.scores[at])));
      }
    }
    double score = 0.0;
    if (fusion.kind == Fusion::Kind::kMax) {
      // A missing component counts 0, so with one the maximum is never below 0.
      bool const all = contributions.size() == n_arms;
      if (!contributions.empty())
        score = *std::max_element(contributions.begin(), contributions.end());
      if (!all) score = std::max(score, 0.0);
    } else {
      score = sum_largest_first(contributions);
    }
    fused.push_back({doc, score + 0.0});
  }
  std::size_t const n_wanted = std::min(request.offset + request.limit, fused.size());
  // At least one: what normalize divides by.
  auto const wanted = fused.begin() + static_cast<std::ptrdiff_t>(std::max(
                                          n_wanted, std::min<std::size_t>(1, fused.size())));
  std::partial_sort(fused.begin(), wanted, fused.end(), [&](FusedDoc const& a, FusedDoc const& b) {
    return a.score != b.score ? a.score > b.score : pool.docs[a.doc].seq < pool.docs[b.doc].seq;
  });
  double best = 0.0;
  if (request.normalize && !fused.empty()) {
    if (fusion.kind == Fusion::Kind::kNone) {
      best = fused.front().score;
    } else if (fusion.kind == Fusion::Kind::kMax) {
      best = *std::max_element(bests.begin(), bests.end());
    } else {
      best = sum_largest_first(bests);
    }
  }
  fused.resize(n_wanted);
  std::erase_if(fused, [&](FusedDoc const& f) { return !request.min_fused.passes(f.score); });
  if (request.normalize) {
    for (FusedDoc& f : fused) f.score = best > 0.0 ? std::clamp(f.score / best, 0.0, 1.0) : 0.0;
  }
  std::vector<double> pool_scales;
  for (ArmScale const& scale : scales) {
    auto const [first, second] = scale.numbers();
    pool_scales.insert(pool_scales.end(), {first, second});
  }
  pool_scales.insert(pool_scales.end(), weights.begin(), weights.end());
  pool_scales.push_back(best);
  return {std::move(fused), std::move(pool_scales)};
}

}  // namespace hyrecall
