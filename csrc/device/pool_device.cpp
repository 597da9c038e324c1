#include "device/pool_device.hpp"

#include <algorithm>
#include <exception>
#include <vector>

#include "core/error.hpp"
#include "device/device_library.hpp"
#include "device/text_params.hpp"

namespace hyrecall::device {
namespace {

// Keeps what goes wrong while results are taken: no exception passes through the library.
struct PoolReceiver {
  TakePools const& take_pools;
  std::exception_ptr error{};

  static void take(void* context, PoolResults const& results) {
    auto& self = *static_cast<PoolReceiver*>(context);
    try {
      self.take_pools(results);
    } catch (...) {
      self.error = std::current_exception();
    }
  }
};

std::size_t n_entries_of(PoolLists const& lists, std::size_t n_queries) {
  return lists.kept != nullptr ? n_queries * lists.kept->depth() : lists.scores.size();
}

void check_lists(PoolLists const& lists, std::size_t n_queries) {
  std::size_t const n = n_entries_of(lists, n_queries);
  bool const is_here = lists.kept == nullptr;
  require(lists.begins.size() == n_queries && lists.counts.size() == n_queries &&
              lists.answers.size() == n_queries &&
              (!is_here || (lists.seqs.size() == n && lists.slots.size() == n)),
          "arrays of lists that fit each other");
  std::size_t end = 0;
  for (std::size_t q = 0; q < n_queries; ++q) {
    require(end <= lists.begins[q] && lists.counts[q] <= kMostPoolList, "lists one after another");
    end = std::size_t{lists.begins[q]} + lists.counts[q];
    bool const is_scored = lists.answers[q] != PoolAnswer::kNone;
    require(!is_scored || (lists.table != nullptr && !is_here),
            "a table and kept lists where documents are scored");
    require(lists.answers[q] != PoolAnswer::kCut || lists.kind != PoolArmKind::kLexical ||
                lists.text != nullptr,
            "texts where documents are scored");
  }
  require(end <= n, "lists one after another");
}

cuda::PoolArmParams params_of(PoolLists const& from, std::size_t n_queries,
                              std::vector<std::uint32_t>& tiles) {
  for (std::uint32_t slot : from.first_slots) tiles.push_back(slot / kTileRows);
  cuda::PoolArmParams out{};
  out.kind = from.kind;
  out.lists = from.kept != nullptr ? from.kept->handle() : nullptr;
  out.table = from.table != nullptr ? from.table->handle() : nullptr;
  out.segment_tiles = array(std::span<std::uint32_t const>(tiles));
  out.begins = from.begins.data();
  out.counts = from.counts.data();
  out.scores = {from.scores.data(), n_entries_of(from, n_queries)};
  out.seqs = from.seqs.data();
  out.slots = from.slots.data();
  out.answers = from.answers.data();
  if (from.text != nullptr) out.text = params_of(*from.text, from.text->texts);
  return out;
}

}  // namespace

void make_hits(std::string const& folder, int ordinal, PoolBatch const& batch,
               TakePools const& take) {
  require(!batch.arms.empty() && batch.arms.size() <= kMostPoolArms, "lists of one to four arms");
  std::vector<cuda::PoolArmParams> arms;
  std::vector<std::vector<std::uint32_t>> tiles(batch.arms.size());
  for (std::size_t arm = 0; arm < batch.arms.size(); ++arm) {
    check_lists(batch.arms[arm], batch.n_queries);
    arms.push_back(params_of(batch.arms[arm], batch.n_queries, tiles[arm]));
  }
  std::uint32_t most = 0;
  for (std::uint32_t q = 0; q < batch.n_queries; ++q) {
    std::uint32_t all = 0;
    for (PoolLists const& lists : batch.arms) all += lists.counts[q];
    most = std::max(most, all);
  }
  PoolReceiver receiver{take};
  cuda::PoolParams params{};
  params.device = ordinal;
  params.n_queries = batch.n_queries;
  params.most_entries = most;
  params.arms = {arms.data(), arms.size()};
  params.fusion = batch.fusion;
  params.wants_pools = batch.wants_pools ? 1 : 0;
  params.take = &PoolReceiver::take;
  params.context = &receiver;
  check(require_library(folder, ordinal).run_pool(&params), ordinal);
  if (receiver.error) std::rethrow_exception(receiver.error);
}

}  // namespace hyrecall::device
