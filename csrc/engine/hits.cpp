// The hits of one part: on its device where that knows every step, else by candidates() and
// merge().
#include <algorithm>
#include <chrono>

#include "core/error.hpp"
#include "engine/dense/on_device.hpp"
#include "engine/lexical/device_texts.hpp"
#include "engine/pool_on_device.hpp"
#include "engine/recall.hpp"

namespace hyrecall {
namespace {

// Entries of all lists that go to a device, and documents of all pools there: some 200 MB.
constexpr std::size_t kMostEntries = std::size_t{1} << 22;

}  // namespace

TimedReply Execution::hits(Statistics const& statistics) const {
  FoundLists found(request_);
  find_lists(statistics, found);
  auto const began = std::chrono::steady_clock::now();
  TimedReply out;
  if (std::optional<ReplyArrays> made = fuse_on_device(found)) {
    out.arrays = std::move(*made);
  } else {
    std::vector<QueryCandidates> const pools = join(found, statistics);
    std::vector<QueryCandidates> const* const parts[] = {&pools};
    out.arrays = merge(request_, parts);
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return out;
}

// Nothing where the device does not know every step: one arm, whose list is its hits already; more
// or longer lists than a CTA sorts; scopes in tables; rows around the hits; lists that the CPU
// found.
std::optional<ReplyArrays> Execution::fuse_on_device(FoundLists const& found) const {
  std::size_t const n_arms = request_.n_arms();
  std::size_t const n_lexical = request_.lexical.size();
  bool const is_known = snapshot_.device != nullptr && snapshot_.n_docs() > 0 && n_arms > 1 &&
                        n_arms <= kMostPoolArms && request_.depth <= kMostPoolList &&
                        request_.tables.empty() && !request_.evidence &&
                        n_lexical + request_.dense.size() > 0 &&
                        request_.n_queries * request_.depth * n_arms <= kMostEntries &&
                        request_.fusion.weights.size() == n_arms;
  if (!is_known) return std::nullopt;
  for (std::size_t arm = 0; arm < n_lexical; ++arm) {
    auto const& own = found.on_host[arm];
    if (!found.on_device[arm] || std::find(own.begin(), own.end(), true) != own.end())
      return std::nullopt;
  }
  std::vector<device::DeviceTable const*> tables;
  for (LexicalRequest const& arm : request_.lexical) tables.push_back(table_on_device(arm));
  for (DenseRequest const& arm : request_.dense)
    tables.push_back(&snapshot_.device->dense_table(arm.column));
  tables.resize(n_arms, nullptr);
  std::vector<std::uint32_t> const own_slots = first_slots_of(snapshot_);

  std::vector<FlatLists> lists(n_arms);
  std::size_t most_docs = 0;
  Joining own;
  for (std::size_t q = 0; q < request_.n_queries; ++q) {
    take_lists(found, q, own);
    std::size_t n_docs = 0;
    for (auto const& list : own.lists) n_docs += list.size();
    most_docs = std::max(most_docs, n_docs);
    for (std::size_t arm = 0; arm < n_arms; ++arm) {
      FlatLists& to = lists[arm];
      to.add(own.lists[arm],
             tables[arm] != nullptr ? tables[arm]->first_slots() : std::span(own_slots));
      bool const is_dense = tables[arm] != nullptr && arm >= n_lexical;
      Floor<float> const floor = tables[arm] == nullptr ? Floor<float>{}
                                 : is_dense             ? request_.dense[arm - n_lexical].floor
                                                        : request_.lexical[arm].floor;
      bool const is_whole = own.lists[arm].size() < request_.depth && !floor.set;
      bool is_asked = tables[arm] != nullptr && n_docs > 0;
      if (is_asked && !is_dense) is_asked = queries_[arm][q].has_value();
      if (is_dense) {
        DenseRequest const& dense = request_.dense[arm - n_lexical];
        to.inverse_norms.push_back(is_asked ? dense.query(q).inverse_norm : 0.0f);
        is_asked = to.inverse_norms.back() != 0.0f;
      }
      to.answer(!is_asked ? PoolAnswer::kNone : is_whole ? PoolAnswer::kWhole : PoolAnswer::kCut);
    }
  }
  std::vector<DeviceTexts> texts;
  std::vector<device::TextQueries> text_queries;
  texts.reserve(n_lexical);
  text_queries.reserve(n_lexical);
  std::vector<device::PoolLists> arms;
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    FlatLists const& from = lists[arm];
    device::PoolLists to = from.view();
    to.kind = arm < n_lexical          ? PoolArmKind::kLexical
              : tables[arm] != nullptr ? PoolArmKind::kDense
                                       : PoolArmKind::kListed;
    to.table = tables[arm];
    if (tables[arm] == nullptr) to.first_slots = own_slots;
    if (to.kind == PoolArmKind::kLexical && from.is_scored) {
      std::vector<std::uint32_t> group_of = found.groups.of(kAllTables).group_of;
      texts.emplace_back(snapshot_, request_.lexical[arm].bm25, found.scorers[arm], postings_[arm],
                         group_of);
      text_queries.push_back(texts.back().queries());
      to.text = &text_queries.back();
    }
    if (to.kind == PoolArmKind::kDense && from.is_scored) {
      DenseRequest const& dense = request_.dense[arm - n_lexical];
      DenseQueries const& all = dense.guest != nullptr ? dense.guest->all() : *dense.queries;
      to.queries = {all.first_row() + dense.begin * all.stride(), all.stride()};
      to.inverse_query_norms = from.inverse_norms;
    }
    arms.push_back(to);
  }
  device::PoolBatch batch{};
  batch.n_queries = static_cast<std::uint32_t>(request_.n_queries);
  batch.arms = arms;
  batch.fusion = pool_fusion_of(request_, most_docs);
  std::optional<ReplyArrays> out;
  device::DeviceTable const& any = *tables.front();
  device::make_hits(any.folder(), any.ordinal(), batch, [&](PoolResults const& results) {
    out = reply_of_pools(results, batch.fusion, arms);
  });
  return out;
}

}  // namespace hyrecall
