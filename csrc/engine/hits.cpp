// The hits of one part: on its device where that knows every step, from the lists of a single arm
// as they are, else by candidates() and merge().
#include <algorithm>
#include <chrono>

#include "core/error.hpp"
#include "core/fusion_math.hpp"
#include "core/parallel.hpp"
#include "engine/dense/on_device.hpp"
#include "engine/fusion/fusion.hpp"
#include "engine/pool_on_device.hpp"
#include "engine/recall.hpp"

namespace hyrecall {
namespace {

// Entries of all lists that go to a device, and documents of all pools there: some 200 MB.
constexpr std::size_t kMostEntries = std::size_t{1} << 22;

// Whether the list of the only arm is the hits already.
bool has_one_list(BatchRequest const& request) {
  auto const& scales = request.fusion.scales;
  return request.n_arms() == 1 && request.listed.empty() && request.tables.empty() &&
         request.fusion.kind == FusionKind::kNone && !request.evidence &&
         std::all_of(scales.begin(), scales.end(),
                     [](FusionScale scale) { return scale == FusionScale::kNone; });
}

// What fusion makes of a document of the only list.
double only_score(float score) {
  std::int32_t const rank = 1;  // any that is in the list
  double room = 0.0;
  return fused_score({}, {&score, 1}, {&rank, 1}, {&room, 1});
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
  find_lists(statistics, may_stay, found);
  auto const began = std::chrono::steady_clock::now();
  TimedReply out;
  if (!found.kept.empty()) {
    out.arrays = fuse_on_device(found);
  } else if (has_one_list(request_)) {
    out.arrays = hits_of_one_list(found);
  } else if (request_.evidence) {
    out.arrays = hits_with_evidence(found, statistics);
  } else {
    std::vector<QueryCandidates> const pools = join(found, statistics);
    std::vector<QueryCandidates> const* const parts[] = {&pools};
    out.arrays = merge(request_, parts);
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
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
  auto const n_workers = static_cast<std::size_t>(std::max(request_.threads, 1));
  std::vector<Worker> workers;
  workers.reserve(n_workers);
  while (workers.size() < n_workers) workers.emplace_back(request_);
  std::vector<ReplyArrays> pieces((request_.n_queries + kShortRun - 1) / kShortRun);
  parallel_for(pieces.size(), request_.threads, [&](int worker, std::size_t piece) {
    Worker& own = workers[static_cast<std::size_t>(worker)];
    std::size_t const end = std::min(request_.n_queries, (piece + 1) * kShortRun);
    for (std::size_t q = piece * kShortRun; q < end; ++q) {
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
  ReplyArrays out;
  out.offsets.reserve(n_queries + 1);
  out.list_sizes.reserve(n_queries);
  Joining own;
  for (std::size_t q = 0; q < n_queries; ++q) {
    take_lists(found, q, own);
    std::span<Candidate const> const list = lists[q] = own.lists.front();
    out.list_sizes.push_back(static_cast<std::int32_t>(list.size()));
    std::size_t const n_wanted = std::min(list.size(), request_.offset + request_.limit);
    auto const end = std::partition_point(
        list.begin(), list.begin() + static_cast<std::ptrdiff_t>(n_wanted),
        [&](Candidate const& one) { return request_.min_fused.passes(only_score(one.score)); });
    auto const n_passing = static_cast<std::size_t>(end - list.begin());
    std::size_t const n_hits = n_passing - std::min(request_.offset, n_passing);
    out.offsets.push_back(out.offsets.back() + static_cast<std::int64_t>(n_hits));
  }
  auto const n_hits = static_cast<std::size_t>(out.offsets.back());
  out.part.resize(n_hits);
  out.segment.resize(n_hits);
  out.row.resize(n_hits);
  out.rank.resize(n_hits);
  out.score.resize(n_hits);
  out.arm_scores.resize(n_hits);
  out.arm_ranks.resize(n_hits);
  std::size_t const n_scales = scales_a_query(1);
  out.scales.resize(n_queries * n_scales);
  double const weight = request_.fusion.weights.empty() ? 1.0 : request_.fusion.weights.front();
  parallel_runs(n_queries, kShortRun, request_.threads, [&](int, std::size_t q) {
    std::span<Candidate const> const list = lists[q];
    ArmScale scale;
    for (Candidate const& one : list) scale.range.add(one.score);
    bool const is_scaled = request_.normalize && !list.empty();
    double const most = is_scaled ? only_score(list.front().score) : 0.0;
    double const scales[] = {scale.first_number(), scale.second_number(), weight, most};
    std::copy_n(scales, n_scales, out.scales.begin() + static_cast<std::ptrdiff_t>(q * n_scales));
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
  });
  return out;
}

// Whether the device knows every step. It does not where there is one arm, whose list is its hits
// already; where more or longer lists come than a CTA sorts; scopes in tables; rows around the
// hits; texts that the CPU searches.
bool Execution::is_for_device_alone(std::vector<std::vector<bool>> const& on_host) const {
  std::size_t const n_arms = request_.n_arms();
  bool const is_known = snapshot_.device != nullptr && snapshot_.n_docs() > 0 && n_arms > 1 &&
                        n_arms <= kMostPoolArms && request_.depth > 0 &&
                        request_.depth <= kMostPoolList && request_.tables.empty() &&
                        !request_.evidence && request_.lexical.size() + request_.dense.size() > 0 &&
                        request_.n_queries * request_.depth * n_arms <= kMostEntries &&
                        request_.fusion.weights.size() == n_arms;
  return is_known && std::none_of(on_host.begin(), on_host.end(), [](auto const& arm) {
           return std::find(arm.begin(), arm.end(), true) != arm.end();
         });
}

// Room for the lists of the next arm.
device::KeptLists* Execution::keep_lists(device::DeviceTable const& table, FoundLists& out) const {
  auto const n_docs = static_cast<std::size_t>(snapshot_.n_docs());
  auto const depth = static_cast<std::uint32_t>(std::min<std::size_t>(request_.depth, n_docs));
  out.kept.push_back(std::make_unique<device::KeptLists>(
      table.folder(), table.ordinal(), static_cast<std::uint32_t>(request_.n_queries), depth,
      table.dim()));
  return out.kept.back().get();
}

// Of lists that stay on the device.
ReplyArrays Execution::fuse_on_device(FoundLists const& found) const {
  std::size_t const n_arms = request_.n_arms();
  std::size_t const n_lexical = request_.lexical.size();
  std::size_t const n_kept = found.kept.size();
  std::vector<std::uint32_t> const own_slots = first_slots_of(snapshot_);
  std::vector<FlatLists> lists(n_arms);
  for (std::size_t arm = 0; arm < n_kept; ++arm) lists[arm].keep(*found.kept[arm]);
  std::size_t most_docs = 0;
  Joining own;
  for (std::size_t q = 0; q < request_.n_queries; ++q) {
    if (!request_.listed.empty()) list_documents(found, q, own);
    for (std::size_t arm = n_kept; arm < n_arms; ++arm) {
      lists[arm].add(own.listed[arm - n_kept], own_slots);
      lists[arm].answer(PoolAnswer::kNone);
    }
    std::size_t n_docs = 0;
    for (FlatLists const& arm : lists) n_docs += arm.counts[q];
    most_docs = std::max(most_docs, n_docs);
    for (std::size_t arm = 0; arm < n_kept; ++arm) {
      bool const is_dense = arm >= n_lexical;
      bool const is_asked =
          n_docs > 0 && (is_dense ? request_.dense[arm - n_lexical].query(q).inverse_norm != 0.0f
                                  : queries_[arm][q].has_value());
      bool const has_floor =
          is_dense ? request_.dense[arm - n_lexical].floor.set : request_.lexical[arm].floor.set;
      bool const is_whole = lists[arm].counts[q] < request_.depth && !has_floor;
      lists[arm].answer(!is_asked  ? PoolAnswer::kNone
                        : is_whole ? PoolAnswer::kWhole
                                   : PoolAnswer::kCut);
    }
  }
  std::vector<device::TextQueries> texts;
  texts.reserve(n_lexical);
  std::vector<device::PoolLists> arms;
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    device::PoolLists to = lists[arm].view();
    to.kind = arm < n_lexical ? PoolArmKind::kLexical
              : arm < n_kept  ? PoolArmKind::kDense
                              : PoolArmKind::kListed;
    if (arm < n_lexical) {
      to.table = table_on_device(request_.lexical[arm]);
      texts.push_back(found.texts[arm]->queries());
      if (lists[arm].is_scored) to.text = &texts.back();
    } else if (arm < n_kept) {
      to.table = &snapshot_.device->dense_table(request_.dense[arm - n_lexical].column);
    } else {
      to.first_slots = own_slots;
    }
    arms.push_back(to);
  }
  device::PoolBatch batch{};
  batch.n_queries = static_cast<std::uint32_t>(request_.n_queries);
  batch.arms = arms;
  batch.fusion = pool_fusion_of(request_, most_docs);
  ReplyArrays out;
  device::DeviceTable const& any = *arms.front().table;
  device::make_hits(any.folder(), any.ordinal(), batch, [&](PoolResults const& results) {
    out = reply_of_pools(results, batch.fusion, arms);
  });
  return out;
}

}  // namespace hyrecall
