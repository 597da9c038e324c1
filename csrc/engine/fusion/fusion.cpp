#include "engine/fusion/fusion.hpp"

#include <algorithm>

#include "engine/request/reply.hpp"

namespace hyrecall {
namespace {

// An arm's scores in the pool in rank order: its list by rank, then (with completion) the others by
// (score desc, seq asc), of which seq decides nothing: equal scores are equal addends. Sums over
// them are rounded in this order, whatever the order of the pool.
std::vector<double> scores_in_rank_order(QueryCandidates const& pool,
                                         std::span<std::int32_t const> ranks, std::size_t arm,
                                         std::size_t n_arms, bool complete) {
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

double sum_largest_first(std::vector<double>& contributions) {
  std::sort(contributions.begin(), contributions.end(), std::greater<>());
  double sum = 0.0;
  for (double c : contributions) sum += c;
  return sum;
}

}  // namespace

// What an arm's score is worth in WeightedSum, Max and DBSF, before its weight.
class ArmScale {
 public:
  ArmScale(Fusion const& fusion, QueryCandidates const& pool, std::span<std::int32_t const> ranks,
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

Fuser::Fuser(BatchRequest const& request) : request_(request), n_arms_(request.n_arms()) {
  std::size_t const n_tables = std::max<std::size_t>(request.tables.size(), 1);
  std::size_t const n_scanned = request.lexical.size() + request.dense.size();
  n_arms_a_doc_ = n_scanned / n_tables + request.listed.size();
  for (std::uint32_t arm = 0; arm < n_scanned; ++arm)
    (arm < request.lexical.size() ? lexical_ : dense_).push_back(arm);
  auto const in_order = [&](auto const& arms, std::size_t first) {
    return [&, first](std::uint32_t a, std::uint32_t b) {
      return arms[a - first].table < arms[b - first].table;
    };
  };
  std::stable_sort(lexical_.begin(), lexical_.end(), in_order(request.lexical, 0));
  std::stable_sort(dense_.begin(), dense_.end(), in_order(request.dense, request.lexical.size()));
}
Fuser::~Fuser() = default;

void Fuser::rank(QueryCandidates const& pool) {
  out_.ranks.assign(pool.docs.size() * n_arms_, 0);
  for (std::size_t arm = 0; arm < n_arms_; ++arm) {
    for (std::size_t i = 0; i < pool.lists[arm].size(); ++i) {
      out_.ranks[pool.lists[arm][i] * n_arms_ + arm] = static_cast<std::int32_t>(i) + 1;
    }
  }
}

// The weights of one query.
void Fuser::weigh(QueryCandidates const& pool) {
  weights_ = request_.fusion.weights;
  weights_.resize(n_arms_, 1.0);
  if (!request_.fusion.balance || lexical_.empty() || dense_.empty()) return;
  // A document lies in one table, so each has a balance of its own.
  std::size_t const n_tables = std::max<std::size_t>(request_.tables.size(), 1);
  std::size_t const n_lexical = lexical_.size() / n_tables, n_dense = dense_.size() / n_tables;
  for (std::size_t table = 0; table < n_tables; ++table) {
    balance(pool, std::span(lexical_).subspan(table * n_lexical, n_lexical),
            std::span(dense_).subspan(table * n_dense, n_dense));
  }
}

// With a balance the weights of the lexical and of the dense arms are shares of 1: what tells
// candidates apart counts, and an arm whose candidates all score near its best does not tell them
// apart.
void Fuser::balance(QueryCandidates const& pool, std::span<std::uint32_t const> lexical_arms,
                    std::span<std::uint32_t const> dense_arms) {
  Fusion const& fusion = request_.fusion;
  struct Kind {
    std::span<std::uint32_t const> arms;
    double weight = 0.0;  // of its arms that scored something
    double mean = 0.0;    // of their scaled scores, an arm as its weight
  };
  Kind lexical{lexical_arms}, dense{dense_arms};
  for (Kind* kind : {&lexical, &dense}) {
    for (std::uint32_t const arm : kind->arms)
      if (scales_[arm].any()) kind->weight += weights_[arm];
    for (std::uint32_t const arm : kind->arms) {
      weights_[arm] = kind->weight > 0.0 ? weights_[arm] / kind->weight : 0.0;
      if (!scales_[arm].any()) continue;
      double sum = 0.0;
      std::vector<double> const scores =
          scores_in_rank_order(pool, out_.ranks, arm, n_arms_, fusion.complete);
      for (double score : scores) sum += scales_[arm](score);
      kind->mean += weights_[arm] * (sum / static_cast<double>(scores.size()));
    }
  }
  double share = dense_share(*fusion.balance, lexical.mean, dense.mean);
  if (lexical.weight == 0.0) share = 1.0;
  if (dense.weight == 0.0) share = 0.0;
  for (std::uint32_t const arm : lexical.arms) weights_[arm] *= 1.0 - share;
  for (std::uint32_t const arm : dense.arms) weights_[arm] *= share;
}

double Fuser::score(QueryCandidates const& pool, std::uint32_t doc) {
  Fusion const& fusion = request_.fusion;
  contributions_.clear();
  for (std::size_t arm = 0; arm < n_arms_; ++arm) {
    std::size_t const at = doc * n_arms_ + arm;
    if (fusion.kind == Fusion::Kind::kRrf) {
      if (out_.ranks[at] > 0)
        contributions_.push_back(rrf_term(weights_[arm], fusion.rank_constant, out_.ranks[at]));
    } else if (pool.scores[at] != kNoScore && (fusion.complete || out_.ranks[at] > 0)) {
      double const weight = fusion.kind == Fusion::Kind::kNone ? 1.0 : weights_[arm];
      contributions_.push_back(weight * (fusion.kind == Fusion::Kind::kNone
                                             ? static_cast<double>(pool.scores[at])
                                             : scales_[arm](pool.scores[at])));
    }
  }
  if (fusion.kind != Fusion::Kind::kMax) return sum_largest_first(contributions_);
  // A missing component counts 0, so with one the maximum is never below 0.
  bool const all = contributions_.size() == n_arms_a_doc_;
  double score = 0.0;
  if (!contributions_.empty())
    score = *std::max_element(contributions_.begin(), contributions_.end());
  return all ? score : std::max(score, 0.0);
}

// What normalize divides by: the most that a document can get, whatever its table.
double Fuser::best(QueryCandidates const& pool) {
  Fusion const& fusion = request_.fusion;
  if (fusion.kind == Fusion::Kind::kNone) return out_.docs.front().score;
  double most = 0.0;
  std::size_t const n_scanned = lexical_.size() + dense_.size();
  for (std::uint32_t table = 0; table < std::max<std::size_t>(request_.tables.size(), 1); ++table) {
    contributions_.clear();
    for (std::size_t arm = 0; arm < n_arms_; ++arm) {
      std::uint32_t const own = arm < lexical_.size() ? request_.lexical[arm].table
                                : arm < n_scanned     ? request_.dense[arm - lexical_.size()].table
                                                      : kAllTables;
      if (own != kAllTables && own != table) continue;
      if (fusion.kind == Fusion::Kind::kRrf) {
        bool const found = !pool.lists[arm].empty();
        contributions_.push_back(found ? rrf_term(weights_[arm], fusion.rank_constant, 1) : 0.0);
      } else {
        contributions_.push_back(weights_[arm] * scales_[arm].best());
      }
    }
    double const found = fusion.kind == Fusion::Kind::kMax
                             ? *std::max_element(contributions_.begin(), contributions_.end())
                             : sum_largest_first(contributions_);
    most = std::max(most, found);
  }
  return most;
}

FusedList const& Fuser::fuse(QueryCandidates const& pool) {
  rank(pool);
  scales_.clear();
  for (std::size_t arm = 0; arm < n_arms_; ++arm)
    scales_.emplace_back(request_.fusion, pool, out_.ranks, arm, n_arms_);
  weigh(pool);
  std::vector<FusedDoc>& fused = out_.docs;
  fused.clear();
  for (std::uint32_t doc = 0; doc < pool.docs.size(); ++doc)
    fused.push_back({doc, score(pool, doc) + 0.0});
  std::size_t const n_wanted = std::min(request_.offset + request_.limit, fused.size());
  // At least one: what normalize divides by.
  auto const wanted = fused.begin() + static_cast<std::ptrdiff_t>(std::max(
                                          n_wanted, std::min<std::size_t>(1, fused.size())));
  std::partial_sort(fused.begin(), wanted, fused.end(), [&](FusedDoc const& a, FusedDoc const& b) {
    return a.score != b.score ? a.score > b.score : pool.docs[a.doc].seq < pool.docs[b.doc].seq;
  });
  double const most = request_.normalize && !fused.empty() ? best(pool) : 0.0;
  fused.resize(n_wanted);
  std::erase_if(fused, [&](FusedDoc const& f) { return !request_.min_fused.passes(f.score); });
  if (request_.normalize) {
    for (FusedDoc& f : fused) f.score = most > 0.0 ? std::clamp(f.score / most, 0.0, 1.0) : 0.0;
  }
  out_.scales.clear();
  for (ArmScale const& scale : scales_) {
    auto const [first, second] = scale.numbers();
    out_.scales.insert(out_.scales.end(), {first, second});
  }
  out_.scales.insert(out_.scales.end(), weights_.begin(), weights_.end());
  out_.scales.push_back(most);
  return out_;
}

}  // namespace hyrecall
