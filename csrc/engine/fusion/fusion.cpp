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
  for (std::size_t doc = 0; complete && doc < pool.n_found(); ++doc) {
    std::size_t const at = doc * n_arms + arm;
    if (ranks[at] == 0 && pool.scores[at] != kNoScore) scores.push_back(pool.scores[at]);
  }
  std::sort(scores.begin() + n_listed, scores.end(), std::greater<>());
  return scores;
}

// What an arm's scores in the pool are scaled with.
ArmScale scale_of(Fusion const& fusion, QueryCandidates const& pool,
                  std::span<std::int32_t const> ranks, std::size_t arm, std::size_t n_arms) {
  ArmScale out;
  if (arm < fusion.scales.size()) out.scale = fusion.scales[arm];
  if (pool.lists[arm].empty()) return out;  // its completed scores add nothing
  for (std::size_t doc = 0; doc < pool.n_found(); ++doc) {
    std::size_t const at = doc * n_arms + arm;
    if (counts(pool.scores[at], ranks[at], fusion.complete)) out.range.add(pool.scores[at]);
  }
  if (out.range.any && out.scale == FusionScale::kDistribution) {
    std::vector<double> const scores =
        scores_in_rank_order(pool, ranks, arm, n_arms, fusion.complete);
    out.moments = moments(scores.data(), scores.size());
  }
  return out;
}

}  // namespace

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
  for (LexicalRequest const& arm : request.lexical) table_of_.push_back(arm.table);
  for (DenseRequest const& arm : request.dense) table_of_.push_back(arm.table);
  table_of_.resize(n_arms_, kAllTables);
  room_.resize(n_arms_);
}

void Fuser::rank(QueryCandidates const& pool) {
  out_.ranks.assign(pool.docs.size() * n_arms_, 0);
  for (std::size_t arm = 0; arm < n_arms_; ++arm) {
    std::vector<std::uint32_t> const& list = pool.lists[arm];
    auto const score = [&](std::size_t i) { return pool.scores[list[i] * n_arms_ + arm]; };
    std::int32_t rank = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      bool const is_next = request_.fusion.ranks_by_place || i == 0 || score(i) != score(i - 1);
      if (is_next) rank = static_cast<std::int32_t>(i) + 1;
      out_.ranks[list[i] * n_arms_ + arm] = rank;
    }
  }
}

// The weights of one query.
void Fuser::weigh(QueryCandidates const& pool) {
  weights_ = request_.fusion.weights;
  weights_.resize(n_arms_, 1.0);
  if (!request_.fusion.balance || lexical_.empty() || dense_.empty()) return;
  means_.assign(n_arms_, 0.0);
  for (auto const* arms : {&lexical_, &dense_}) {
    for (std::uint32_t const arm : *arms) {
      if (scales_[arm].range.any) {
        std::vector<double> const scores =
            scores_in_rank_order(pool, out_.ranks, arm, n_arms_, request_.fusion.complete);
        means_[arm] = mean_worth(scales_[arm], scores.data(), scores.size());
      }
    }
  }
  // A document lies in one table, so each has a balance of its own.
  std::size_t const n_tables = std::max<std::size_t>(request_.tables.size(), 1);
  std::size_t const n_lexical = lexical_.size() / n_tables, n_dense = dense_.size() / n_tables;
  for (std::size_t table = 0; table < n_tables; ++table) {
    balance_weights(*request_.fusion.balance,
                    std::span(lexical_).subspan(table * n_lexical, n_lexical),
                    std::span(dense_).subspan(table * n_dense, n_dense), scales_, means_, weights_);
  }
}

FusionRules Fuser::rules() const {
  Fusion const& fusion = request_.fusion;
  return {fusion.kind,
          fusion.complete,
          static_cast<std::uint32_t>(n_arms_a_doc_),
          fusion.rank_constant,
          weights_,
          scales_,
          request_.evidence.has_value()};
}

// What normalize divides by: the most that a document can get, whatever its table.
double Fuser::best(QueryCandidates const& pool) {
  if (request_.fusion.kind == FusionKind::kNone) return out_.docs.front().score;
  list_sizes_.clear();
  for (auto const& list : pool.lists)
    list_sizes_.push_back(static_cast<std::uint32_t>(list.size()));
  double most = 0.0;
  for (std::uint32_t table = 0; table < std::max<std::size_t>(request_.tables.size(), 1); ++table)
    most = std::max(most, best_of_table(rules(), table, table_of_, list_sizes_, room_));
  return most;
}

double Fuser::fused_score_of(QueryCandidates const& pool, FusionRules const& how,
                             std::uint32_t doc) {
  std::size_t const at = std::size_t{doc} * n_arms_;
  return fused_score(how, std::span(pool.scores).subspan(at, n_arms_),
                     std::span(out_.ranks).subspan(at, n_arms_), room_);
}

FusedList const& Fuser::fuse(QueryCandidates const& pool) {
  return fuse_pool(pool, nullptr);
}

FusedList const& Fuser::fuse(QueryCandidates const& pool, OpenScores& open) {
  if (open.is_open.empty()) return fuse_pool(pool, nullptr);
  Evidence const& how = *request_.evidence;
  auto const is_negative = [](double weight) { return weight < 0.0; };
  auto const& weights = request_.fusion.weights;
  // Bounds pay where few of the pool are wanted, and more weight must mean more.
  bool const is_bounded = 4 * n_wanted() < pool.docs.size() &&
                          request_.fusion.kind != FusionKind::kNone &&
                          std::none_of(weights.begin(), weights.end(), is_negative) &&
                          std::none_of(how.neighbours.begin(), how.neighbours.end(), is_negative);
  if (is_bounded) return fuse_pool(pool, &open);
  to_close_.clear();
  for (std::uint32_t doc = 0; doc < pool.docs.size(); ++doc)
    if (open.is_open[doc] != 0) to_close_.push_back(doc);
  open.close(to_close_);
  return fuse_pool(pool, nullptr);
}

FusedList const& Fuser::fuse_pool(QueryCandidates const& pool, OpenScores* open) {
  rank(pool);
  scales_.clear();
  for (std::size_t arm = 0; arm < n_arms_; ++arm)
    scales_.push_back(scale_of(request_.fusion, pool, out_.ranks, arm, n_arms_));
  weigh(pool);
  std::vector<FusedDoc>& fused = out_.docs;
  fused.clear();
  FusionRules const how = rules();
  for (std::uint32_t doc = 0; doc < pool.docs.size(); ++doc)
    fused.push_back({doc, fused_score_of(pool, how, doc)});
  double most = 0.0;
  if (pool.evidence) {
    most = fused.empty() ? 0.0 : best(pool);
    begin_evidence(pool);
    if (open != nullptr) {
      settle(pool, how, most, *open);
    } else {
      add_evidence(pool, most);
      std::erase_if(fused, [&](FusedDoc const& f) { return pool.evidence->hidden[f.doc] != 0; });
    }
  }
  std::size_t const n_hits = std::min(n_wanted(), fused.size());
  // At least one: what normalize divides by.
  auto const wanted = fused.begin() + static_cast<std::ptrdiff_t>(
                                          std::max(n_hits, std::min<std::size_t>(1, fused.size())));
  std::partial_sort(fused.begin(), wanted, fused.end(), [&](FusedDoc const& a, FusedDoc const& b) {
    return a.score != b.score ? a.score > b.score : pool.docs[a.doc].seq < pool.docs[b.doc].seq;
  });
  if (request_.normalize) most = fused.empty() ? 0.0 : best(pool);
  fused.resize(n_hits);
  if (pool.evidence) keep_evidence(pool, most);
  std::erase_if(fused, [&](FusedDoc const& f) { return !request_.min_fused.passes(f.score); });
  if (request_.normalize) {
    for (FusedDoc& f : fused) f.score = normalized_score(f.score, most);
  }
  out_.scales.clear();
  for (ArmScale const& scale : scales_)
    out_.scales.insert(out_.scales.end(), {scale.first_number(), scale.second_number()});
  out_.scales.insert(out_.scales.end(), weights_.begin(), weights_.end());
  out_.scales.push_back(most);
  return out_;
}

}  // namespace hyrecall
