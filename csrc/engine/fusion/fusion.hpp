// Joining the arms' lists of one query into one.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/fusion_math.hpp"
#include "engine/request/reply.hpp"
#include "engine/request/request.hpp"

namespace hyrecall {

struct FusedDoc {
  std::uint32_t doc;  // index into the pool
  double score;
};

// What the rows around the documents of a pool added to their scores.
struct FusedEvidence {
  std::vector<double> fused;  // [n_docs] before it
  // Of the documents that the list has: NaN = null; the better neighbour, kNone32 = none.
  std::vector<double> addends;          // [n_docs, n_addends]
  std::vector<std::uint32_t> speakers;  // [n_docs, n_distances]
};

struct FusedList {
  std::vector<FusedDoc> docs;
  // Ranks of every document of the pool in every arm: 1 + how many of the arm's list score higher,
  // so that equal scores share a rank; 0 = outside the list.
  std::vector<std::int32_t> ranks;  // [n_docs, n_arms]
  // What explain() needs to scale again: lowest and highest score of each arm in the pool (their
  // mean and deviation where the scale is by distribution), then the arms' weights, then what
  // normalize divided by, or, with evidence, the unit that its addends are in. [3 n_arms + 1]
  std::vector<double> scales;
  FusedEvidence evidence;  // of a request with evidence
};

// Scores that nobody has computed yet: of one arm, for documents of a pool that are only near those
// of the lists. A fusion asks for those that its list depends on.
struct OpenScores {
  std::size_t arm = 0;
  std::vector<std::uint8_t> is_open;  // [n_docs]; empty: none
  float most = 0.0f;                  // no open document scores higher, unless it is hidden
  float most_of_hidden = 0.0f;
  std::function<void(std::span<std::uint32_t const>)> close;  // computes those of rising documents
};

// Fuses query after query of a request, for one thread.
class Fuser {
 public:
  explicit Fuser(BatchRequest const& request);

  // The first offset + limit of the pool by (score desc, seq asc), floors and normalisation
  // applied. A document outside an arm's list keeps the completed score there; a null component
  // adds 0; a document's contributions are added largest first. The reply lasts until the next
  // call.
  FusedList const& fuse(QueryCandidates const& pool);
  // The same of a pool that lacks scores, which open.close() writes there.
  FusedList const& fuse(QueryCandidates const& pool, OpenScores& open);

 private:
  // A document that may be a hit, and a score that it does not exceed.
  struct Contender {
    std::uint32_t doc;
    double high;
  };
  // What a document adds to its own score, and the sum of these without their signs.
  struct OwnAddends {
    double sum, size;
  };

  FusedList const& fuse_pool(QueryCandidates const& pool, OpenScores* open);
  void rank(QueryCandidates const& pool);
  void weigh(QueryCandidates const& pool);
  FusionRules rules() const;
  double best(QueryCandidates const& pool);
  double fused_score_of(QueryCandidates const& pool, FusionRules const& how, std::uint32_t doc);
  std::size_t n_wanted() const { return request_.offset + request_.limit; }
  void begin_evidence(QueryCandidates const& pool);
  void add_evidence(QueryCandidates const& pool, double unit);
  void bound(QueryCandidates const& pool, FusionRules const& how, OpenScores const& open);
  void list_open(QueryCandidates const& pool, OpenScores const& open,
                 std::span<Contender const> contenders);
  void close(QueryCandidates const& pool, FusionRules const& how, OpenScores& open);
  void settle(QueryCandidates const& pool, FusionRules const& how, double unit, OpenScores& open);
  double near_total(QueryCandidates const& pool, std::uint32_t doc, double const* fused,
                    double side) const;
  double total(QueryCandidates const& pool, std::uint32_t doc, std::span<double const> own) const;
  double worth_of_length(std::uint32_t tokens);
  double by_arm(QueryCandidates const& pool, std::uint32_t doc, double unit, bool is_thread);
  void hear_near(QueryCandidates const& pool, std::uint32_t doc, std::span<double const> fused,
                 std::span<double> addends, std::span<std::uint32_t> speakers) const;
  void hear_itself(QueryCandidates const& pool, std::uint32_t doc, double unit,
                   std::span<double> addends);
  void keep_evidence(QueryCandidates const& pool, double unit);

  BatchRequest const& request_;
  std::size_t n_arms_;
  std::size_t n_arms_a_doc_;                    // in which one document can be
  std::vector<std::uint32_t> lexical_, dense_;  // arms, those of a table beside each other
  FusedList out_;
  std::vector<ArmScale> scales_;           // by arm
  std::vector<double> weights_;            // by arm
  std::vector<std::uint32_t> table_of_;    // by arm
  std::vector<std::uint32_t> list_sizes_;  // by arm
  std::vector<double> means_;              // by arm, of what its scores are worth
  std::vector<double> room_;               // by arm: contributions to one document
  std::vector<ScoreRange> thread_ranges_;  // by lexical arm
  std::vector<double> length_worths_;      // by tokens, NaN = not asked yet
  float last_thread_ = kNoScore;           // of one lexical arm: a thread's score, and its addend
  double last_addend_ = 0.0;
  std::vector<double> length_addends_;  // of one lexical arm, by tokens, NaN = not asked yet
  // Between what the fused scores of a pool lie: [n_docs], and behind them what no neighbour has.
  std::vector<double> lower_, upper_;
  std::vector<OwnAddends> own_addends_;  // [n_docs]
  std::vector<Contender> contenders_;
  std::vector<double> lows_;
  std::vector<std::uint32_t> to_close_;
  std::vector<float> scores_;  // [n_arms]
};

}  // namespace hyrecall
