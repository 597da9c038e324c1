#include "engine/recall.hpp"

#include <algorithm>
#include <iterator>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "engine/dense/column.hpp"
#include "engine/dense/on_device.hpp"
#include "engine/dense/scan.hpp"
#include "engine/dense/sparse_scan.hpp"
#include "engine/evidence/snapshot_threads.hpp"
#include "engine/evidence/surroundings.hpp"
#include "engine/lexical/column.hpp"
#include "engine/lexical/on_device.hpp"
#include "engine/lexical/scan.hpp"
#include "engine/related/listed.hpp"

namespace hyrecall {

namespace {

// What a query costs the CPU beside its postings, as so many of them: 2 us.
constexpr std::uint64_t kPostingsAQuery = 2'048;

// That the request was made for such a snapshot.
void check_fits(Snapshot const& snapshot, BatchRequest const& request) {
  if (snapshot.segments.empty()) return;
  Segment::Parts const& parts = snapshot.segments.front()->segment().p;  // all are alike
  for (LexicalRequest const& arm : request.lexical)
    require(arm.column < parts.lexical.size(), "a lexical column");
  if (request.evidence && request.evidence->prior)
    require(request.evidence->prior->attribute < parts.attributes.size(), "an attribute column");
  for (DenseRequest const& arm : request.dense) {
    require(arm.column < parts.dense.size(), "a dense column");
    DenseColumn const& column = *parts.dense[arm.column];
    require((column.sparse != nullptr) == (arm.sparse != nullptr), "queries like the rows");
    require(column.has_many() == (arm.bundles != nullptr), "queries of as many vectors");
    if (arm.sparse != nullptr) continue;
    std::uint32_t const dim = arm.guest != nullptr ? arm.guest->dim() : arm.queries->dim();
    require(dim == column.dim, "queries of the dimension");
  }
}

}  // namespace

Execution::Execution(Snapshot const& snapshot, BatchRequest const& request)
    : snapshot_(snapshot), request_(request), scopes_(resolve_scopes(snapshot, request)) {
  check_fits(snapshot, request);
  if (request.evidence && request.evidence->prior) {
    for (auto const& view : snapshot.segments)
      priors_.push_back(prior_codes(*request.evidence->prior, view->segment()));
  }
  if (request.evidence && request.evidence->has_threads() && !snapshot.segments.empty()) {
    for (auto const& view : snapshot.segments)
      require(view->segment().has_threads(), "segments with threads");
    threads_ = &threads_of(snapshot);
  }
  postings_.reserve(request.lexical.size());
  Statistics statistics;
  for (std::size_t arm = 0; arm < request.lexical.size(); ++arm) {
    LexicalRequest const& lexical = request.lexical[arm];
    std::vector<Refusal> refused;
    queries_.push_back(analyze_queries(lexical.queries, *lexical.analyzer, request.first_query,
                                       request.threads, refused));
    for (std::size_t q = 0; q < lexical.refused.size(); ++q) {
      if (lexical.refused[q] != Refusal::kNone) refused[q] = lexical.refused[q];
    }
    for (std::size_t q = 0; q < refused.size(); ++q) {
      if (is_refused(refused[q])) queries_[arm][q].reset();
    }
    for (ChosenTerms const& one : lexical.chosen) {
      auto& query = queries_[arm][one.query];
      if (query && one.leaf < query->leaves.size()) query->leaves[one.leaf].chosen = one.terms;
    }
    postings_.emplace_back(queries_[arm], snapshot.segments.size());
    statistics.push_back(find_leaves(arm, refused));
  }
  statistics_ = std::make_shared<Statistics const>(std::move(statistics));
}

// Of each scope that the arm reads, the documents with text and their tokens.
std::vector<CellTextStatistics> Execution::sum_scopes(std::size_t arm) const {
  std::size_t const column = request_.lexical[arm].column;
  std::vector<CellTextStatistics> sums(request_.scopes.size());
  std::vector<bool> is_read(sums.size());
  for (std::uint32_t const scope : request_.scopes_of(request_.lexical[arm].table))
    is_read[scope] = true;
  parallel_runs(sums.size(), run_of(scopes_), request_.threads, [&](int, std::size_t scope) {
    if (!is_read[scope]) return;
    for (std::size_t s = 0; s < snapshot_.segments.size(); ++s) {
      for (std::uint32_t cell : scopes_[scope][s].cells) {
        CellTextStatistics const one = snapshot_.segments[s]->text_statistics(column, cell);
        sums[scope].n_docs += one.n_docs;
        sums[scope].total_length += one.total_length;
        sums[scope].squared_length += one.squared_length;
      }
    }
  });
  return sums;
}

QueryOnSegment Execution::query_on(std::size_t arm, std::size_t query, std::size_t segment) {
  std::uint32_t const scope = request_.scopes_of(request_.lexical[arm].table)[query];
  return {&scopes_[scope][segment], &*queries_[arm][query], postings_[arm].at(query, segment)};
}

// Cuts the words of a query that stand for too many terms, which are counted with all of them.
bool Execution::cut_words(std::size_t arm, std::size_t q, Expansions const& expansions) {
  bool is_cut = false;
  for (auto const& [leaf, terms] : expansions) {
    if (terms.size() <= kMostExpanded) continue;
    queries_[arm][q]->leaves[leaf].chosen = most_frequent(terms, kMostExpanded);
    is_cut = true;
  }
  for (std::size_t s = 0; s < snapshot_.segments.size() && is_cut; ++s)
    find_chosen(*snapshot_.segments[s], request_.lexical[arm].column, query_on(arm, q, s));
  return is_cut;
}

// Finds where the leaves of an arm's queries occur, and counts them.
std::vector<QueryStatistics> Execution::find_leaves(std::size_t arm,
                                                    std::vector<Refusal> const& refused) {
  LexicalRequest const& lexical = request_.lexical[arm];
  std::size_t const n_segments = snapshot_.segments.size();
  std::vector<CellTextStatistics> const sums = sum_scopes(arm);
  std::span<std::uint32_t const> const scope_of = request_.scopes_of(lexical.table);
  std::vector<QueryStatistics> found(request_.n_queries);
  auto const n_workers = static_cast<std::size_t>(std::max(request_.threads, 1));
  std::vector<PostingScratch> scratch(n_workers);
  std::vector<ThreadCounts> counting(threads_ == nullptr ? 0 : n_workers);
  std::size_t const run = std::min(run_of(scopes_), kQueriesTogether);
  parallel_for(
      (request_.n_queries + run - 1) / run, request_.threads, [&](int worker, std::size_t part) {
        std::size_t const begin = part * run;
        std::size_t const end = std::min(request_.n_queries, begin + run);
        std::vector<QueryOnSegment> together;
        for (std::size_t s = 0; s < n_segments; ++s) {
          together.clear();
          for (std::size_t q = begin; q < end; ++q) {
            if (queries_[arm][q]) together.push_back(query_on(arm, q, s));
          }
          find_terms(*snapshot_.segments[s], lexical.column, together,
                     scratch[static_cast<std::size_t>(worker)]);
        }
        for (std::size_t q = begin; q < end; ++q) {
          auto const& query = queries_[arm][q];
          found[q].refusal = refused[q];
          if (!query) continue;
          CellTextStatistics const& sum = sums[scope_of[q]];
          QueryStatistics statistics{sum.n_docs, sum.total_length,
                                     QueryStatistics::DocFreqs(query->leaves.size(), 0)};
          statistics.squared_length = sum.squared_length;
          statistics.refusal = refused[q];
          for (std::size_t s = 0; s < n_segments; ++s) {
            QueryOnSegment const own = query_on(arm, q, s);
            find_phrases(*snapshot_.segments[s], lexical.column, own, statistics.expansions);
            for (std::size_t leaf = 0; leaf < own.out.size(); ++leaf)
              statistics.doc_freqs[leaf] += own.out[leaf].doc_freq;
          }
          if (threads_ != nullptr && request_.evidence->thread > 0.0) {
            count_threads(snapshot_, *threads_, lexical.column, *query, scopes_[scope_of[q]],
                          postings_of(arm, q), counting[static_cast<std::size_t>(worker)],
                          statistics);
          }
          if (cut_words(arm, q, statistics.expansions)) statistics.refusal = Refusal::kCut;
          found[q] = std::move(statistics);
        }
      });
  return found;
}

// Where the leaves of a query occur, as [segment].
std::vector<std::span<LeafPostings const>> Execution::postings_of(std::size_t arm,
                                                                  std::size_t query) const {
  std::vector<std::span<LeafPostings const>> out;
  for (std::size_t s = 0; s < snapshot_.segments.size(); ++s)
    out.push_back(postings_[arm].at(query, s));
  return out;
}

std::vector<std::vector<Bm25Query>> Execution::make_scorers(Statistics const& statistics) const {
  static LexicalQuery const kMissing;
  std::vector<std::vector<Bm25Query>> scorers(request_.lexical.size());
  std::size_t const n_runs = (request_.n_queries + kShortRun - 1) / kShortRun;
  for (std::size_t arm = 0; arm < scorers.size(); ++arm) {
    std::vector<std::vector<Bm25Query>> runs(n_runs);
    parallel_for(n_runs, request_.threads, [&](int, std::size_t run) {
      runs[run].reserve(kShortRun);
      std::size_t const end = std::min(request_.n_queries, (run + 1) * kShortRun);
      for (std::size_t q = run * kShortRun; q < end; ++q) {
        auto const& query = queries_[arm][q];
        runs[run].emplace_back(request_.lexical[arm].bm25, query ? *query : kMissing,
                               statistics[arm][q]);
      }
    });
    scorers[arm].reserve(request_.n_queries);
    for (auto& run : runs) std::move(run.begin(), run.end(), std::back_inserter(scorers[arm]));
  }
  return scorers;
}

// The arm's column on the device of the snapshot, or null.
device::DeviceTable const* Execution::table_on_device(LexicalRequest const& arm) const {
  return snapshot_.device == nullptr ? nullptr : snapshot_.device->lexical_table(arm.column);
}

// Whether the CPU has read all postings of the batch before a device would have begun. A device
// that searches vectors is launched anyway.
bool Execution::is_small() const {
  if (request_.host_postings == 0 || !request_.dense.empty()) return false;
  std::uint64_t n_postings = 0;
  for (auto const& arm : *statistics_) {
    for (QueryStatistics const& query : arm) {
      std::uint64_t own = 0;
      for (std::int64_t const doc_freq : query.doc_freqs)
        own += static_cast<std::uint64_t>(doc_freq);
      n_postings += own == 0 ? 0 : own + kPostingsAQuery;
      if (n_postings > request_.host_postings) return false;
    }
  }
  return true;
}

std::vector<std::pair<std::size_t, bool>> Execution::host_queries(std::size_t arm) const {
  std::vector<std::pair<std::size_t, bool>> out;
  if (table_on_device(request_.lexical.at(arm)) == nullptr) return out;
  for (std::size_t q = 0; q < request_.n_queries; ++q) {
    auto const& query = queries_[arm][q];
    if (query && !is_for_device(*query)) out.emplace_back(q, query->has_excluded);
  }
  return out;
}

std::vector<std::vector<bool>> Execution::texts_on_host() const {
  std::vector<std::vector<bool>> out;
  bool const is_all = is_small();
  for (std::size_t arm = 0; arm < request_.lexical.size(); ++arm) {
    std::vector<bool>& own = out.emplace_back(request_.n_queries, true);
    if (is_all || table_on_device(request_.lexical[arm]) == nullptr) continue;
    own.assign(request_.n_queries, false);
    for (auto const& [query, excludes] : host_queries(arm)) own[query] = true;
  }
  return out;
}

// What is known before any arm is searched.
void Execution::begin_lists(Statistics const& statistics, FoundLists& out) const {
  require_like(statistics, *statistics_);
  out.scorers = make_scorers(statistics);
  out.on_host = texts_on_host();
  bool const has_host = std::any_of(out.on_host.begin(), out.on_host.end(), [](auto const& arm) {
    return std::find(arm.begin(), arm.end(), true) != arm.end();
  });
  bool const is_on_device = snapshot_.device != nullptr;
  if (has_host || !request_.listed.empty() || request_.evidence || !is_on_device)
    out.audiences.emplace(snapshot_, request_, scopes_, out.groups);
}

void Execution::read_guests() const {
  for (DenseRequest const& arm : request_.dense) {
    std::size_t const end = arm.begin + request_.n_queries;
    if (arm.guest != nullptr && !arm.guest->has(arm.begin, end)) arm.guest->read(arm.begin, end);
  }
}

// The lists of all arms; only: of these queries, empty: of all. taker (may be null): gets those of
// the only arm where a device finds them.
void Execution::find_lists(FoundLists& out, std::span<std::uint32_t const> only,
                           ListTaker* taker) const {
  std::size_t const n_lexical = request_.lexical.size();
  bool const is_on_device = snapshot_.device != nullptr && snapshot_.n_docs() > 0;
  if (!is_on_device) read_guests();
  auto const is_searched = [&](std::size_t arm, bool on_host) {
    auto const& own = out.on_host[arm];
    return std::find(own.begin(), own.end(), on_host) != own.end();
  };
  bool has_host = false;
  for (std::size_t arm = 0; arm < n_lexical; ++arm) has_host = has_host || is_searched(arm, true);
  if (has_host) {
    out.scanned = scan_lexical_arms(snapshot_, request_, scopes_, *out.audiences, out.scorers,
                                    postings_, out.on_host);
  }
  out.scanned.resize(n_lexical + request_.dense.size());
  for (auto& arm : out.scanned) arm.resize(request_.n_queries);
  if (has_host) taker = nullptr;
  for (std::size_t arm = 0; arm < n_lexical; ++arm) {
    LexicalRequest const& lexical = request_.lexical[arm];
    device::DeviceTable const* const table = table_on_device(lexical);
    if (table == nullptr || !is_searched(arm, false)) continue;
    LexicalArm(*table, snapshot_, request_, lexical, scopes_, out.groups.of(lexical.table),
               out.scorers[arm], postings_[arm], only)
        .run(out.scanned[arm], taker);
  }
  for (std::size_t at = 0; at < request_.dense.size(); ++at) {
    DenseRequest const& arm = request_.dense[at];
    QueryLists& lists = out.scanned[n_lexical + at];
    if (arm.completes_only) continue;
    if (is_on_device) {
      DenseArm(snapshot_, request_, arm, scopes_, out.groups.of(arm.table), only).run(lists, taker);
    } else if (snapshot_.device == nullptr) {
      auto const scan = arm.bundles != nullptr  ? scan_max_sim
                        : arm.sparse != nullptr ? scan_sparse
                                                : scan_dense;
      lists = scan(snapshot_, request_, arm, out.audiences->of(arm.table));
    }
  }
}

// What the request lists for a query, of each such arm.
void Execution::list_documents(FoundLists const& found, std::size_t q, Joining& own) const {
  own.listed.clear();
  for (ListedRequest const& arm : request_.listed) {
    Audience const& audience = found.audiences->of(kAllTables);
    own.listed.push_back(list_candidates(snapshot_, audience, audience.group_of(q), arm.queries[q],
                                         arm.floor, request_.depth));
  }
}

// The lists of one query, by arm.
void Execution::take_lists(FoundLists const& found, std::size_t q, Joining& own) const {
  list_documents(found, q, own);
  own.lists.clear();
  for (auto const& arm : found.scanned) own.lists.push_back(arm[q]);
  for (auto const& list : own.listed) own.lists.push_back(list);
}

std::vector<QueryCandidates> Execution::candidates(Statistics const& statistics) const {
  FoundLists found(request_);
  begin_lists(statistics, found);
  find_lists(found);
  return join(found, statistics);
}

Execution::Shares Execution::shares_of_threads() const {
  bool const has_many = std::any_of(request_.dense.begin(), request_.dense.end(),
                                    [](DenseRequest const& arm) { return arm.bundles != nullptr; });
  if (!has_many) return {kShortRun, request_.threads, 1};
  bool const are_few = request_.n_queries < static_cast<std::size_t>(std::max(request_.threads, 1));
  return {1, are_few ? 1 : request_.threads, are_few ? request_.threads : 1};
}

std::vector<QueryCandidates> Execution::join(FoundLists const& found,
                                             Statistics const& statistics) const {
  std::vector<QueryCandidates> pools(request_.n_queries);
  Shares const shares = shares_of_threads();
  std::vector<Joining> joining(static_cast<std::size_t>(std::max(shares.threads, 1)));
  parallel_runs(request_.n_queries, shares.run, shares.threads, [&](int worker, std::size_t q) {
    Joining& own = joining[static_cast<std::size_t>(worker)];
    own.row_threads = shares.row_threads;
    take_lists(found, q, own);
    pools[q] =
        complete(q, found.scorers, statistics, found.audiences ? &*found.audiences : nullptr, own);
  });
  return pools;
}

}  // namespace hyrecall
