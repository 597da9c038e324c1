// The hits of one part: on its device where that knows every step, from the lists of a single arm
// as they are, else by candidates() and merge().
#include <algorithm>
#include <chrono>
#include <deque>

#include "core/error.hpp"
#include "core/fusion_math.hpp"
#include "core/parallel.hpp"
#include "engine/dense/on_device.hpp"
#include "engine/fusion/fusion.hpp"
#include "engine/lexical/on_device.hpp"
#include "engine/pool_on_device.hpp"
#include "engine/recall.hpp"

namespace hyrecall {
namespace {

// Entries of all lists that go to a device, and documents of all pools there: some 200 MB.
constexpr std::size_t kMostEntries = std::size_t{1} << 22;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

constexpr std::span<std::uint32_t const> kAllQueries{};

// Whether the list of the only arm is the hits already.
bool has_one_list(BatchRequest const& request) {
  auto const& scales = request.fusion.scales;
  return request.n_arms() == 1 && request.listed.empty() && request.tables.empty() &&
         request.fusion.kind == FusionKind::kNone && !request.evidence &&
         std::all_of(scales.begin(), scales.end(),
                     [](FusionScale scale) { return scale == FusionScale::kNone; });
}

// What fused_score() makes of a document of the only list.
double only_score(float score) {
  return static_cast<double>(score) + 0.0;  // -0 + 0 is +0
}

}  // namespace

TimedReply Execution::hits(Statistics const& statistics) const {
  try {
    return make_hits(statistics, true);
  } catch (Error const& error) {
    if (snapshot_.device == nullptr || error.code() != ErrorCode::kDeviceMemory) throw;
  }
  // Lists that stay on the device need memory beside the searches, and so does their fusion.
  return make_hits(statistics, false);
}

TimedReply Execution::make_hits(Statistics const& statistics, bool may_stay) const {
  FoundLists found(request_);
  begin_lists(statistics, found);
  if (may_stay && is_for_device_alone(found.on_host)) return hits_on_device(statistics, found);
  TimedReply out;
  ListTaker taker{[&](auto sizes) { begin_hits(sizes, out.arrays); },
                  [&](std::size_t q, auto list) { write_hits(q, list, out.arrays); }};
  bool const is_single = has_one_list(request_);
  find_lists(found, {}, is_single && !request_.min_fused.set ? &taker : nullptr);
  if (taker.has_taken) return out;
  auto const began = Clock::now();
  if (is_single) {
    out.arrays = hits_of_one_list(found);
  } else if (request_.evidence) {
    out.arrays = hits_with_evidence(found, statistics);
  } else {
    std::vector<QueryCandidates> const pools = join(found, statistics);
    std::vector<QueryCandidates> const* const parts[] = {&pools};
    out.arrays = merge(request_, parts);
  }
  out.seconds = seconds_since(began);
  return out;
}

// Of pools with the rows around their documents: each is joined and fused before the next, and has
// only the cosines computed that its hits depend on.
ReplyArrays Execution::hits_with_evidence(FoundLists const& found,
                                          Statistics const& statistics) const {
  struct alignas(128) Worker {
    explicit Worker(BatchRequest const& request) : fuser(request) {}
    Fuser fuser;
    Joining joining;
    OpenScores open;
  };
  bool const is_single = request_.fusion.kind == FusionKind::kNone && request_.n_arms() == 1;
  require(request_.fusion.weights.size() == request_.n_arms() || is_single, "a fusion of all arms");
  Shares const shares = shares_of_threads();
  auto const n_workers = static_cast<std::size_t>(std::max(shares.threads, 1));
  std::vector<Worker> workers;
  workers.reserve(n_workers);
  while (workers.size() < n_workers) workers.emplace_back(request_);
  std::vector<ReplyArrays> pieces((request_.n_queries + shares.run - 1) / shares.run);
  parallel_for(pieces.size(), shares.threads, [&](int worker, std::size_t piece) {
    Worker& own = workers[static_cast<std::size_t>(worker)];
    own.joining.row_threads = shares.row_threads;
    std::size_t const end = std::min(request_.n_queries, (piece + 1) * shares.run);
    for (std::size_t q = piece * shares.run; q < end; ++q) {
      take_lists(found, q, own.joining);
      own.open.is_open.clear();
      QueryCandidates pool =
          complete(q, found.scorers, statistics, &*found.audiences, own.joining, &own.open);
      own.open.close = [&, q](std::span<std::uint32_t const> docs) {
        std::vector<Pending>& pending = own.joining.pending;
        pending.clear();
        for (std::uint32_t const doc : docs) pending.push_back({pool.docs[doc].doc, doc});
        score_pending_vectors(request_.dense.front(), q, own.open.arm, pool, own.joining);
      };
      append_hits(request_, pool, own.fuser.fuse(pool, own.open), {}, pieces[piece]);
    }
  });
  return join_pieces(pieces);
}

// Of a single arm: each list is cut to the hits that are asked for and copied to its place in the
// arrays.
ReplyArrays Execution::hits_of_one_list(FoundLists const& found) const {
  std::size_t const n_queries = request_.n_queries;
  std::vector<std::span<Candidate const>> lists(n_queries);
  std::vector<std::size_t> passing(n_queries);
  Joining own;
  for (std::size_t q = 0; q < n_queries; ++q) {
    take_lists(found, q, own);
    std::span<Candidate const> const list = lists[q] = own.lists.front();
    auto const end = std::partition_point(list.begin(), list.end(), [&](Candidate const& one) {
      return request_.min_fused.passes(only_score(one.score));
    });
    passing[q] = static_cast<std::size_t>(end - list.begin());
  }
  ReplyArrays out;
  begin_hits(passing, out);
  parallel_runs(n_queries, kShortRun, request_.threads,
                [&](int, std::size_t q) { write_hits(q, lists[q], out); });
  return out;
}

// Room for the hits of a single arm. passing: [n_queries] documents that min_fused lets through.
void Execution::begin_hits(std::span<std::size_t const> passing, ReplyArrays& out) const {
  out.offsets.assign(1, 0);
  out.offsets.reserve(passing.size() + 1);
  for (std::size_t const n_passing : passing) {
    std::size_t const end = std::min(n_passing, request_.offset + request_.limit);
    std::size_t const n_hits = end - std::min(request_.offset, end);
    out.offsets.push_back(out.offsets.back() + static_cast<std::int64_t>(n_hits));
  }
  out.make_room(1);
  out.list_sizes.resize(passing.size());
  out.scales.resize(passing.size() * scales_a_query(1));
  for (std::size_t q = 0; q < passing.size(); ++q)
    if (passing[q] == 0) write_hits(q, {}, out);
}

// The hits of one query, and the numbers of its scale.
void Execution::write_hits(std::size_t q, std::span<Candidate const> list, ReplyArrays& out) const {
  out.list_sizes[q] = static_cast<std::int32_t>(list.size());
  ArmScale scale;
  if (!list.empty()) scale.range = {list.back().score, list.front().score, true};
  double const weight = request_.fusion.weights.empty() ? 1.0 : request_.fusion.weights.front();
  bool const is_scaled = request_.normalize && !list.empty();
  double const most = is_scaled ? only_score(list.front().score) : 0.0;
  double const scales[] = {scale.first_number(), scale.second_number(), weight, most};
  std::copy_n(scales, scales_a_query(1), out.scales.data() + q * scales_a_query(1));
  std::size_t place = request_.offset;
  std::int32_t arm_rank = 0;  // shared by equal scores
  if (place < list.size()) {
    auto const first =
        std::partition_point(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(place),
                             [&](Candidate const& c) { return c.score > list[place].score; });
    arm_rank = static_cast<std::int32_t>(first - list.begin()) + 1;
  }
  auto const end = static_cast<std::size_t>(out.offsets[q + 1]);
  for (auto hit = static_cast<std::size_t>(out.offsets[q]); hit < end; ++hit, ++place) {
    Candidate const& one = list[place];
    double const score = only_score(one.score);
    if (place > 0 && list[place - 1].score != one.score)
      arm_rank = static_cast<std::int32_t>(place) + 1;
    out.segment[hit] = one.doc.segment;
    out.row[hit] = one.doc.row;
    out.rank[hit] = static_cast<std::int32_t>(place) + 1;
    out.arm_ranks[hit] = arm_rank;
    out.score[hit] = request_.normalize ? normalized_score(score, most) : score;
    out.arm_scores[hit] = one.score;
  }
}

// Whether the device knows every step. It does not where there is one arm, whose list is its hits
// already; where more or longer lists come than a CTA sorts; scopes in tables; rows around the
// hits; texts that the CPU searches; many or sparse vectors, which the CPU
// completes.
bool Execution::is_for_device_alone(std::vector<std::vector<bool>> const& on_host) const {
  std::size_t const n_arms = request_.n_arms();
  bool const is_known = snapshot_.device != nullptr && snapshot_.n_docs() > 0 && n_arms > 1 &&
                        n_arms <= kMostPoolArms && request_.depth > 0 && request_.n_queries > 0 &&
                        request_.n_queries <= device::kMostTogether &&
                        request_.depth <= kMostPoolList && request_.tables.empty() &&
                        !request_.evidence && request_.lexical.size() + request_.dense.size() > 0 &&
                        request_.n_queries * request_.depth * n_arms <= kMostEntries &&
                        request_.fusion.weights.size() == n_arms &&
                        std::ranges::all_of(request_.dense, &DenseRequest::is_plain);
  return is_known && std::none_of(on_host.begin(), on_host.end(), [](auto const& arm) {
           return std::find(arm.begin(), arm.end(), true) != arm.end();
         });
}

// Of searches and fusion in one submission. Queries of which a search says that it may lack some
// rows are searched again, with lists for the host: a few, if any.
TimedReply Execution::hits_on_device(Statistics const& statistics, FoundLists& found) const {
  std::size_t const n = request_.n_queries;
  std::size_t const n_arms = request_.n_arms();
  std::deque<LexicalArm> lexical;  // where they stay
  std::deque<DenseArm> dense;
  std::vector<device::DenseSearch> searches;
  std::vector<std::vector<std::uint8_t>> asks(n_arms);
  std::vector<device::PoolLists> arms;
  searches.reserve(n_arms);
  auto const add = [&](PoolArmKind kind, device::DeviceTable const& table, auto const& arm,
                       bool has_floor, auto const& is_asked) {
    std::vector<std::uint8_t>& own = asks[arms.size()];
    for (std::size_t q = 0; q < n; ++q) own.push_back(is_asked(q) ? 1 : 0);
    searches.push_back(arm.batch());
    device::PoolLists to{};
    to.kind = kind;
    to.table = &table;
    to.search = &searches.back();
    to.asks = own;
    to.depth = static_cast<std::uint32_t>(request_.depth);
    to.has_floor = has_floor;
    arms.push_back(to);
  };
  for (std::size_t number = 0; number < request_.lexical.size(); ++number) {
    LexicalRequest const& arm = request_.lexical[number];
    device::DeviceTable const& table = *table_on_device(arm);
    LexicalArm& own =
        lexical.emplace_back(table, snapshot_, request_, arm, scopes_, found.groups.of(arm.table),
                             found.scorers[number], postings_[number], kAllQueries);
    add(PoolArmKind::kLexical, table, own, arm.floor.set,
        [&](std::size_t q) { return queries_[number][q].has_value(); });
  }
  for (DenseRequest const& arm : request_.dense) {
    DenseArm& own = dense.emplace_back(snapshot_, request_, arm, scopes_,
                                       found.groups.of(arm.table), kAllQueries);
    // Of a query that lies on the device only that knows whether it has a direction.
    add(PoolArmKind::kDense, snapshot_.device->dense_table(arm.column), own, arm.floor.set,
        [&](std::size_t q) { return own.is_in_place() || arm.query(q).inverse_norm != 0.0f; });
  }
  std::vector<std::uint32_t> const tiles = segment_tiles_of(snapshot_);
  std::vector<FlatLists> listed(request_.listed.size());
  Joining own;
  for (std::size_t q = 0; q < n && !listed.empty(); ++q) {
    list_documents(found, q, own);
    for (std::size_t arm = 0; arm < listed.size(); ++arm) listed[arm].add(own.listed[arm], tiles);
  }
  for (FlatLists const& lists : listed) arms.push_back(lists.view(tiles));
  device::PoolBatch batch{};
  batch.n_queries = static_cast<std::uint32_t>(n);
  batch.arms = arms;
  batch.fusion = pool_fusion_of(request_, n_arms * request_.depth);
  std::vector<std::uint32_t> lost;
  std::vector<ReplyArrays> pieces;
  TimedReply out;
  device::DeviceTable const& any = *arms.front().table;
  device::make_hits(any.folder(), any.ordinal(), batch,
                    [&](PoolResults const& results, std::span<std::uint32_t const> of_lost) {
                      auto const began = Clock::now();
                      lost.assign(of_lost.begin(), of_lost.end());
                      std::size_t begin = 0;
                      for (std::size_t i = 0; i <= lost.size(); ++i) {
                        std::size_t const end = i < lost.size() ? lost[i] : n;
                        pieces.push_back(reply_of_pools(results, batch.fusion, arms, begin, end,
                                                        request_.threads));
                        begin = end + 1;
                      }
                      out.seconds = seconds_since(began);
                    });
  for (DenseArm& arm : dense) arm.accept();
  if (lost.empty()) {
    out.arrays = std::move(pieces.front());
    return out;
  }
  find_lists(found, lost);
  auto const began = Clock::now();
  std::vector<ReplyArrays> of_lost = hits_of(lost, statistics, found);
  for (std::size_t i = 0; i < lost.size(); ++i)
    pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(2 * i + 1), std::move(of_lost[i]));
  out.arrays = join_pieces(pieces);
  out.seconds += seconds_since(began);
  return out;
}

// Of some queries, a reply each.
std::vector<ReplyArrays> Execution::hits_of(std::span<std::uint32_t const> queries,
                                            Statistics const& statistics,
                                            FoundLists const& found) const {
  std::vector<ReplyArrays> out(queries.size());
  parallel_for(queries.size(), request_.threads, [&](int, std::size_t i) {
    Joining joining;
    take_lists(found, queries[i], joining);
    QueryCandidates const pool = complete(queries[i], found.scorers, statistics,
                                          found.audiences ? &*found.audiences : nullptr, joining);
    append_hits(request_, pool, Fuser(request_).fuse(pool), {}, out[i]);
  });
  return out;
}

}  // namespace hyrecall
