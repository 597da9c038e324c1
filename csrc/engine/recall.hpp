// A recall in three plain steps that parts of a distributed index can take apart:
// statistics of each part, summed; candidates of each part; one merge.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/dense/max_sim.hpp"
#include "engine/evidence/feedback.hpp"
#include "engine/evidence/surroundings.hpp"
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

// A reply, and how long its lists took to become it.
struct TimedReply {
  ReplyArrays arrays;
  double seconds = 0.0;
};

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
  // What merge() makes of these candidates alone; on the snapshot's device where that knows how.
  TimedReply hits(Statistics const& statistics) const;

  // What the best rows of each query's first answer add to it. They must be rows of its scope.
  SecondLook second_look(FirstRows const& rows, FeedbackParams const& params) const;

  // Refuses a row outside the query's scope: what is told of a row is told through here.
  void require_authorised(std::size_t query, DocRef doc) const;

  // How explain() sees one document of the query's scope: term frequencies of the query's leaves.
  std::vector<std::uint32_t> leaf_freqs(std::size_t arm, std::size_t query, DocRef doc) const;
  bool matches(std::size_t arm, std::size_t query, DocRef doc) const;
  // Of a dense arm whose rows have many vectors: for each vector of the query, its number there and
  // what it met; nothing where the query or the document has none.
  std::vector<std::pair<std::size_t, MaxSimPair>> vector_pairs(std::size_t arm, std::size_t query,
                                                               DocRef doc) const;
  // Of an arm of sparse vectors: the terms that the query and the document share.
  std::vector<SparsePair> sparse_pairs(std::size_t arm, std::size_t query, DocRef doc) const;
  // Whether it would match without the query's kNot parts.
  bool excludes(std::size_t arm, std::size_t query, DocRef doc) const;
  // Reads the queries that lie on a device and that no search has read.
  void read_guests() const;
  // The rows that a query sees and an arm of it matches, by segment: all that it sees if the
  // request has no arm. Its vectors must have been read.
  GroupTiles matched(std::size_t query, Audiences const& audiences) const;
  // groups: of the request, with the whole scopes; they must outlive the audiences.
  Audiences audiences(RequestGroups const& groups) const {
    return {snapshot_, request_, scopes_, groups};
  }
  std::vector<std::optional<LexicalQuery>> const& queries(std::size_t arm) const {
    return queries_.at(arm);
  }
  // Which queries of each lexical arm the CPU searches, as [arm][query]: all where the snapshot has
  // no postings on a device or the batch is small, else those that are not for a device.
  std::vector<std::vector<bool>> texts_on_host() const;
  // The queries of a lexical arm that its device cannot search, however large the batch is.
  // Each with whether that is for a kNot, else for the size of its tree.
  std::vector<std::pair<std::size_t, bool>> host_queries(std::size_t arm) const;
  // The queries of a lexical arm whose texts ask for too much and are not searched, and those that
  // are cut.
  std::vector<std::pair<std::size_t, Refusal>> refused_queries(std::size_t arm) const;
  // The queries of a lexical arm whose text has no token.
  std::vector<std::size_t> empty_queries(std::size_t arm) const;

 private:
  // The lists of all queries in the arms that are scanned, lexical ones first: [arm][query].
  using Lists = std::vector<QueryLists>;
  // Where a document stands in an arm's list.
  struct ListPlace {
    Seq seq;
    std::uint32_t arm, place;
  };
  // A document of a pool whose score in an arm is wanted.
  struct Pending {
    DocRef doc;
    std::uint32_t at;  // its index in the pool
  };
  struct alignas(128) Joining {  // working memory of one thread: two write no cache line both
    std::vector<ListPlace> entries;
    std::vector<std::vector<Candidate>> listed;
    std::vector<std::span<Candidate const>> lists;  // by arm
    std::vector<Pending> pending;
    std::vector<Row> rows;
    std::vector<float> scores;
    PoolThreads threads;
    int row_threads = 1;  // that score a query's rows of many vectors
  };
  // How threads share the completion of a batch.
  struct Shares {
    std::size_t run;  // of queries that a thread takes at a time
    int threads;      // that take such runs
    int row_threads;  // of each of them, for rows of many vectors
  };
  // What the arms found, and what the completion of their lists needs.
  struct FoundLists {
    explicit FoundLists(BatchRequest const& request)
        : groups(request, !request.listed.empty() || request.evidence.has_value()) {}
    FoundLists(FoundLists const&) = delete;  // the audiences refer to the groups
    FoundLists& operator=(FoundLists const&) = delete;

    std::vector<std::vector<Bm25Query>> scorers;  // [lexical arm][query]
    std::vector<std::vector<bool>> on_host;       // see texts_on_host()
    RequestGroups groups;
    std::optional<Audiences> audiences;  // a device finds an arm's rows by itself
    Lists scanned;                       // by the CPU or a device
  };

  std::vector<CellTextStatistics> sum_scopes(std::size_t arm) const;
  QueryOnSegment query_on(std::size_t arm, std::size_t query, std::size_t segment);
  bool cut_words(std::size_t arm, std::size_t query, Expansions const& expansions);
  std::vector<QueryStatistics> find_leaves(std::size_t arm, std::vector<Refusal> const& refused);
  std::vector<std::int64_t> count_terms(std::size_t arm, std::size_t query,
                                        std::span<std::string_view const> terms,
                                        PostingScratch& scratch) const;
  std::vector<std::vector<Bm25Query>> make_scorers(Statistics const& statistics) const;
  device::DeviceTable const* table_on_device(LexicalRequest const& arm) const;
  bool is_small() const;
  static QueryCandidates join_lists(std::span<std::span<Candidate const> const> lists,
                                    std::vector<ListPlace>& entries);
  void begin_lists(Statistics const& statistics, FoundLists& out) const;
  void find_lists(FoundLists& out, std::span<std::uint32_t const> only = {},
                  ListTaker* taker = nullptr) const;
  bool is_for_device_alone(std::vector<std::vector<bool>> const& on_host) const;
  TimedReply make_hits(Statistics const& statistics, bool may_stay) const;
  Shares shares_of_threads() const;
  std::vector<QueryCandidates> join(FoundLists const& found, Statistics const& statistics) const;
  void list_documents(FoundLists const& found, std::size_t query, Joining& own) const;
  void take_lists(FoundLists const& found, std::size_t query, Joining& own) const;
  TimedReply hits_on_device(Statistics const& statistics, FoundLists& found) const;
  std::vector<ReplyArrays> hits_of(std::span<std::uint32_t const> queries,
                                   Statistics const& statistics, FoundLists const& found) const;
  ReplyArrays hits_of_one_list(FoundLists const& found) const;
  void begin_hits(std::span<std::size_t const> passing, ReplyArrays& out) const;
  void write_hits(std::size_t query, std::span<Candidate const> list, ReplyArrays& out) const;
  ReplyArrays hits_with_evidence(FoundLists const& found, Statistics const& statistics) const;
  bool is_in_table(std::uint32_t table, std::size_t query, DocRef doc) const;
  QueryCandidates complete(std::size_t query, std::vector<std::vector<Bm25Query>> const& scorers,
                           Statistics const& statistics, Audiences const* audiences,
                           Joining& joining, OpenScores* open = nullptr) const;
  void leave_open(std::size_t query, QueryCandidates const& pool, Joining& joining,
                  OpenScores& open) const;
  void score_pending(std::size_t arm, std::size_t query, Bm25Query const& scorer,
                     QueryCandidates& pool, Joining& joining) const;
  std::vector<std::span<LeafPostings const>> postings_of(std::size_t arm, std::size_t query) const;
  template <typename F>
  void score_by_segment(std::size_t arm, QueryCandidates& pool, Joining& joining, F&& f) const;
  void score_pending_vectors(DenseRequest const& dense, std::size_t query, std::size_t arm,
                             QueryCandidates& pool, Joining& joining) const;
  void add_evidence(std::size_t query, Statistics const& statistics, Audience const& audience,
                    QueryCandidates& pool, PoolThreads& joined) const;
  void score_evidence(std::size_t query, Statistics const& statistics, QueryCandidates& pool,
                      Joining& joining) const;

  Snapshot const& snapshot_;
  BatchRequest const& request_;
  ResolvedScopes scopes_;
  std::vector<std::vector<std::optional<LexicalQuery>>> queries_;  // [lexical arm][query]
  std::vector<ArmPostings> postings_;                              // [lexical arm]
  std::shared_ptr<Statistics const> statistics_;
  SnapshotThreads const* threads_ = nullptr;  // of a request whose evidence has threads
  std::vector<PriorCodes> priors_;            // [segment] of a request with a prior
};

}  // namespace hyrecall
