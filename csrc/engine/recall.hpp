// A recall in three plain steps that parts of a distributed index can take apart:
// statistics of each part, summed; candidates of each part; one merge.
#pragma once

#include <memory>
#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/merge_parts.hpp"
#include "engine/request/reply.hpp"
#include "engine/request/request.hpp"
#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

namespace device {
class DeviceTable;
}

// One request on one part (a snapshot).
class Execution {
 public:
  // Analyses the texts, resolves the scopes, finds the postings and counts them. Both arguments
  // must outlive it.
  Execution(Snapshot const& snapshot, BatchRequest const& request);

  Statistics const& statistics() const { return *statistics_; }
  // The same, for who needs them longer than this lives.
  std::shared_ptr<Statistics const> shared_statistics() const { return statistics_; }
  // Each arm's best `depth` documents, and every arm's score of each. statistics: summed over all
  // parts.
  std::vector<QueryCandidates> candidates(Statistics const& statistics) const;

  // Refuses a row outside the query's scope: what is told of a row is told through here.
  void require_authorised(std::size_t query, DocRef doc) const;

  // How explain() sees one document of the query's scope: term frequencies of the query's leaves.
  std::vector<std::uint32_t> leaf_freqs(std::size_t arm, std::size_t query, DocRef doc) const;
  bool matches(std::size_t arm, std::size_t query, DocRef doc) const;
  std::vector<std::optional<LexicalQuery>> const& queries(std::size_t arm) const {
    return queries_.at(arm);
  }
  // Which queries of each lexical arm the CPU searches, as [arm][query]: all where the snapshot has
  // no postings on a device, else those that are not for a device.
  std::vector<std::vector<bool>> texts_on_host() const;
  // The queries of a lexical arm whose text has no token.
  std::vector<std::size_t> empty_queries(std::size_t arm) const;

 private:
  // The lists of all queries in the arms that are scanned, lexical ones first: [arm][query].
  using Lists = std::vector<std::vector<std::vector<Candidate>>>;
  struct Joining;  // working memory of one thread

  std::vector<CellTextStatistics> sum_scopes(std::size_t arm) const;
  std::vector<QueryStatistics> find_leaves(std::size_t arm);
  std::vector<std::vector<Bm25Query>> make_scorers(Statistics const& statistics) const;
  device::DeviceTable const* table_on_device(LexicalRequest const& arm) const;
  bool is_in_table(std::uint32_t table, std::size_t query, DocRef doc) const;
  QueryCandidates complete(std::size_t query, std::vector<std::vector<Bm25Query>> const& scorers,
                           Statistics const& statistics, Audiences const* audiences,
                           Joining& joining) const;
  void score_pending(std::size_t arm, std::size_t query, Bm25Query const& scorer,
                     QueryCandidates& pool, Joining& joining) const;
  std::vector<std::span<LeafPostings const>> postings_of(std::size_t arm, std::size_t query) const;
  void add_evidence(std::size_t query, Statistics const& statistics, Audience const& audience,
                    QueryCandidates& pool) const;
  void score_evidence(std::size_t query, Statistics const& statistics, QueryCandidates& pool) const;

  Snapshot const& snapshot_;
  BatchRequest const& request_;
  ResolvedScopes scopes_;
  std::vector<std::vector<std::optional<LexicalQuery>>> queries_;  // [lexical arm][query]
  std::vector<ArmPostings> postings_;                              // [lexical arm]
  std::shared_ptr<Statistics const> statistics_;
  SnapshotThreads const* threads_ = nullptr;  // of a request with evidence
};

}  // namespace hyrecall
