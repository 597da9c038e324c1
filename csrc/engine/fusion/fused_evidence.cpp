// What evidence adds to the fused scores of a pool, and which documents may be hits where some of
// its scores are not computed yet.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/fusion/fusion.hpp"

namespace hyrecall {
namespace {

// What rows of fewer tokens get for their length is kept.
constexpr std::uint32_t kKeptLengths = 256;

}  // namespace

// What the addends of a query are scaled with.
void Fuser::begin_evidence(QueryCandidates const& pool) {
  std::vector<double>& fused = out_.evidence.fused;
  fused.clear();
  for (FusedDoc const& one : out_.docs) fused.push_back(one.score);
  last_thread_ = kNoScore;
  length_addends_.assign(kKeptLengths, std::numeric_limits<double>::quiet_NaN());
  thread_ranges_.assign(request_.lexical.size(), {});
  if (!(request_.evidence->thread > 0.0)) return;
  for (std::size_t doc = 0; doc < pool.n_found(); ++doc) {
    for (std::size_t arm = 0; arm < thread_ranges_.size(); ++arm) {
      float const score = pool.evidence->threads[doc * thread_ranges_.size() + arm];
      if (score != kNoScore) thread_ranges_[arm].add(score);
    }
  }
}

// Adds its evidence to the score of each document. unit: the best possible fused score, of which
// all but the neighbours are shares.
void Fuser::add_evidence(QueryCandidates const& pool, double unit) {
  std::array<double, 3> own;
  for (FusedDoc& one : out_.docs) {
    if (pool.evidence->hidden[one.doc] != 0) continue;
    hear_itself(pool, one.doc, unit, own);
    one.score = total(pool, one.doc, own);
  }
}

// The score of a document with its evidence. own: of hear_itself().
double Fuser::total(QueryCandidates const& pool, std::uint32_t doc,
                    std::span<double const> own) const {
  std::span<double const> const fused = out_.evidence.fused;
  std::array<double, kMostDistances> addends;
  std::array<std::uint32_t, kMostDistances> speakers;
  std::array<double, kMostDistances + 4> room;
  hear_near(pool, doc, fused, addends, speakers);
  std::size_t n = 0;
  room[n++] = fused[doc];
  for (std::size_t distance = 0; distance < request_.evidence->n_distances(); ++distance)
    if (speakers[distance] != kNone32) room[n++] = addends[distance];
  for (double const addend : own)
    if (!std::isnan(addend)) room[n++] = addend;
  return sum_largest_first(std::span(room).first(n)) + 0.0;
}

// The better neighbour at each distance; NaN and kNone32 = there is none.
void Fuser::hear_near(QueryCandidates const& pool, std::uint32_t doc, std::span<double const> fused,
                      std::span<double> addends, std::span<std::uint32_t> speakers) const {
  std::span<double const> const weights = request_.evidence->neighbours;
  std::uint32_t const* near = pool.evidence->near.data() + std::size_t{doc} * weights.size() * 2;
  for (std::size_t distance = 0; distance < weights.size(); ++distance, near += 2) {
    std::uint32_t speaker = near[0];  // the one before, where both score alike
    if (near[1] != kNone32 && (speaker == kNone32 || fused[speaker] < fused[near[1]]))
      speaker = near[1];
    double const score = speaker == kNone32 ? 0.0 : fused[speaker];
    speakers[distance] = speaker;
    addends[distance] = speaker == kNone32 ? std::numeric_limits<double>::quiet_NaN()
                                           : weights[distance] * (score < 0.0 ? 0.0 : score);
  }
}

// What a document's thread, length and prior add; NaN = null.
void Fuser::hear_itself(QueryCandidates const& pool, std::uint32_t doc, double unit,
                        std::span<double> addends) {
  Evidence const& how = *request_.evidence;
  constexpr double kNull = std::numeric_limits<double>::quiet_NaN();
  addends[2] = how.prior ? unit * pool.evidence->priors[doc] : kNull;
  if (request_.lexical.size() != 1) {
    addends[0] = how.thread > 0.0 ? by_arm(pool, doc, unit, true) : kNull;
    addends[1] = how.length > 0.0 ? by_arm(pool, doc, unit, false) : kNull;
    return;
  }
  // Documents of a thread come one after another, and lengths are few.
  addends[0] = addends[1] = kNull;
  float const thread = pool.evidence->threads[doc];
  if (how.thread > 0.0 && thread != kNoScore) {
    if (thread != last_thread_) {
      last_thread_ = thread;
      last_addend_ = by_arm(pool, doc, unit, true);
    }
    addends[0] = last_addend_;
  }
  std::uint32_t const length = pool.evidence->lengths[doc];
  if (how.length > 0.0 && length != kNone32) {
    if (length >= kKeptLengths) {
      addends[1] = by_arm(pool, doc, unit, false);
    } else {
      double& kept = length_addends_[length];
      if (std::isnan(kept)) kept = by_arm(pool, doc, unit, false);
      addends[1] = kept;
    }
  }
}

// ---- a pool that lacks scores. What a document can get at least and at most decides whether it
// may be a hit; every step of the arithmetic keeps the order of its operands, rounding included.

// Between what the fused scores lie, as lower_ and upper_.
void Fuser::bound(QueryCandidates const& pool, FusionRules const& how, OpenScores const& open) {
  std::size_t const n = pool.docs.size();
  lower_ = out_.evidence.fused;  // as if the documents had no such score
  lower_.push_back(-std::numeric_limits<double>::infinity());
  upper_ = lower_;
  ArmScale const& scale = scales_[open.arm];
  if (!scale.range.any) return;  // the arm lists nothing, so its scores add nothing
  bool const may_cost = scale.worth_within(-1.0) < 0.0;  // a cosine is no less
  if (n_arms_ == 2 && how.kind == FusionKind::kWeightedSum && how.complete && !may_cost) {
    double const most = how.weights[open.arm] * scale.worth_within(open.most);
    double const hidden = how.weights[open.arm] * scale.worth_within(open.most_of_hidden);
    for (std::size_t doc = 0; doc < n; ++doc) {
      if (open.is_open[doc] != 0)
        upper_[doc] = lower_[doc] + (pool.evidence->hidden[doc] != 0 ? hidden : most);
    }
    return;
  }
  for (std::size_t doc = 0; doc < n; ++doc) {
    if (open.is_open[doc] == 0) continue;
    std::size_t const at = doc * n_arms_;
    auto const first = pool.scores.begin() + static_cast<std::ptrdiff_t>(at);
    scores_.assign(first, first + static_cast<std::ptrdiff_t>(n_arms_));
    auto const with = [&](float score) {
      scores_[open.arm] = score;
      return fused_score(how, scores_, std::span(out_.ranks).subspan(at, n_arms_), room_);
    };
    upper_[doc] = std::max(lower_[doc],
                           with(pool.evidence->hidden[doc] != 0 ? open.most_of_hidden : open.most));
    if (may_cost) lower_[doc] = std::min(lower_[doc], with(-1.0f));
  }
}

// What total() does not exceed with these fused scores (side 1), or reaches (side -1): the same
// numbers in any order, and more than all roundings can change. fused: as upper_.
double Fuser::near_total(QueryCandidates const& pool, std::uint32_t doc, double const* fused,
                         double side) const {
  constexpr double kRoundings = 0x1p-40;
  std::span<double const> const weights = request_.evidence->neighbours;
  std::uint32_t const* near = pool.evidence->near.data() + std::size_t{doc} * weights.size() * 2;
  auto const none = static_cast<std::uint32_t>(pool.docs.size());
  double sum = 0.0;
  for (std::size_t distance = 0; distance < weights.size(); ++distance, near += 2) {
    double const before = fused[near[0] == kNone32 ? none : near[0]];
    double const behind = fused[near[1] == kNone32 ? none : near[1]];
    double const better = before < behind ? behind : before;
    sum += weights[distance] * (better < 0.0 ? 0.0 : better);
  }
  OwnAddends const& own = own_addends_[doc];
  double const size = std::abs(fused[doc]) + sum + own.size;
  return fused[doc] + sum + own.sum + side * kRoundings * size;
}

// Makes to_close_ of the open documents that the scores of these depend on.
void Fuser::list_open(QueryCandidates const& pool, OpenScores const& open,
                      std::span<Contender const> contenders) {
  std::size_t const n_distances = request_.evidence->n_distances();
  to_close_.clear();
  for (Contender const& one : contenders) {
    if (open.is_open[one.doc] != 0) to_close_.push_back(one.doc);
    std::uint32_t const* near = pool.evidence->near.data() + one.doc * n_distances * 2;
    for (std::size_t slot = 0; slot < n_distances * 2; ++slot) {
      std::uint32_t const doc = near[slot], beside = near[slot ^ 1];
      if (doc == kNone32 || open.is_open[doc] == 0) continue;
      if (beside != kNone32 && upper_[doc] < lower_[beside]) continue;  // the other one speaks
      to_close_.push_back(doc);
    }
  }
  std::sort(to_close_.begin(), to_close_.end());
  to_close_.erase(std::unique(to_close_.begin(), to_close_.end()), to_close_.end());
}

// Has the scores of to_close_ computed.
void Fuser::close(QueryCandidates const& pool, FusionRules const& how, OpenScores& open) {
  open.close(to_close_);
  for (std::uint32_t const doc : to_close_) {
    open.is_open[doc] = 0;
    upper_[doc] = lower_[doc] = out_.evidence.fused[doc] = fused_score_of(pool, how, doc);
  }
}

// Makes out_.docs the documents that may be hits, with their scores.
void Fuser::settle(QueryCandidates const& pool, FusionRules const& how, double unit,
                   OpenScores& open) {
  bound(pool, how, open);
  std::size_t const n_best = std::max<std::size_t>(n_wanted(), 1);
  std::array<double, 3> own;
  own_addends_.resize(pool.docs.size());
  contenders_.clear();
  for (std::uint32_t doc = 0; doc < pool.docs.size(); ++doc) {
    if (pool.evidence->hidden[doc] != 0) continue;
    hear_itself(pool, doc, unit, own);
    own_addends_[doc] = {0.0, 0.0};
    for (double const addend : own) {
      if (std::isnan(addend)) continue;
      own_addends_[doc].sum += addend;
      own_addends_[doc].size += std::abs(addend);
    }
    contenders_.push_back({doc, 0.0});
  }
  // First the scores that the best depend on: with these known, fewer can still be among them.
  for (bool const is_last : {false, true}) {
    lows_.clear();
    for (Contender& one : contenders_) {
      one.high = near_total(pool, one.doc, upper_.data(), 1.0);
      // Any that many give a score that the last hit reaches; those of the lists are the best.
      if (is_last || one.doc < pool.n_found())
        lows_.push_back(near_total(pool, one.doc, lower_.data(), -1.0));
    }
    if (lows_.size() >= n_best) {
      auto const last = lows_.begin() + static_cast<std::ptrdiff_t>(n_best) - 1;
      std::nth_element(lows_.begin(), last, lows_.end(), std::greater<>());
      double const least = *last;
      std::erase_if(contenders_, [&](Contender const& one) { return one.high < least; });
    }
    std::size_t n_asked = contenders_.size();
    if (!is_last && n_asked > 2 * n_best) {
      n_asked = 2 * n_best;
      std::nth_element(contenders_.begin(),
                       contenders_.begin() + static_cast<std::ptrdiff_t>(n_asked),
                       contenders_.end(),
                       [](Contender const& a, Contender const& b) { return a.high > b.high; });
    }
    list_open(pool, open, std::span(contenders_).first(n_asked));
    close(pool, how, open);
  }
  out_.docs.clear();
  for (Contender const& one : contenders_) {
    hear_itself(pool, one.doc, unit, own);
    out_.docs.push_back({one.doc, total(pool, one.doc, own)});
  }
}

// length_worth(), whose logarithm costs as much as all else of a document; lengths are few.
double Fuser::worth_of_length(std::uint32_t tokens) {
  if (tokens >= kKeptLengths) return length_worth(tokens);
  if (length_worths_.empty())
    length_worths_.assign(kKeptLengths, std::numeric_limits<double>::quiet_NaN());
  double& worth = length_worths_[tokens];
  if (std::isnan(worth)) worth = length_worth(tokens);
  return worth;
}

// The addend of a document's thread, or of its length: the mean of what it is worth in the lexical
// arms that list something and say something of the document, each with its weight.
double Fuser::by_arm(QueryCandidates const& pool, std::uint32_t doc, double unit, bool is_thread) {
  PoolEvidence const& evidence = *pool.evidence;
  std::size_t const n_lexical = request_.lexical.size();
  std::size_t n = 0;
  double total = 0.0;
  for (std::size_t arm = 0; arm < n_lexical; ++arm) {
    float const score = evidence.threads[doc * n_lexical + arm];
    std::uint32_t const length = evidence.lengths[doc * n_lexical + arm];
    if (pool.lists[arm].empty() || (is_thread ? score == kNoScore : length == kNone32)) continue;
    ScoreRange const& range = thread_ranges_[arm];
    double const worth = is_thread ? minmax_scale(score, range.low, range.high)
                                   : evidence.length_shares[arm] * worth_of_length(length);
    room_[n++] = request_.fusion.weights[arm] * worth;
    total = total + request_.fusion.weights[arm];
  }
  if (!(total > 0.0)) return std::numeric_limits<double>::quiet_NaN();
  double const weight = is_thread ? request_.evidence->thread : request_.evidence->length;
  double const mean = sum_largest_first(std::span(room_).first(n)) / total;
  return (weight * unit) * mean;
}

// What spoke for the documents that are wanted.
void Fuser::keep_evidence(QueryCandidates const& pool, double unit) {
  FusedEvidence& out = out_.evidence;
  std::size_t const n_distances = request_.evidence->n_distances();
  std::size_t const n_addends = request_.evidence->n_addends();
  out.addends.resize(pool.docs.size() * n_addends);
  out.speakers.resize(pool.docs.size() * n_distances);
  for (FusedDoc const& one : out_.docs) {
    std::span<double> const addends =
        std::span(out.addends).subspan(one.doc * n_addends, n_addends);
    hear_near(pool, one.doc, out.fused, addends,
              std::span(out.speakers).subspan(one.doc * n_distances, n_distances));
    hear_itself(pool, one.doc, unit, addends.subspan(n_distances));
  }
}

}  // namespace hyrecall
