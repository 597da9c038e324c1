#include "device/pool_device.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "device/dense_pass.hpp"

namespace hyrecall::device {
namespace {

void check_lists(PoolLists const& lists, std::size_t n_queries) {
  if (lists.search != nullptr) {
    require(lists.table != nullptr && lists.search->group_of.size() == n_queries &&
                lists.asks.size() == n_queries,
            "a search of the batch's queries");
    return;
  }
  PoolArrays const& here = lists.here;
  std::size_t const n = here.scores.size();
  require(here.begins.size() == n_queries && here.counts.size() == n_queries &&
              here.seqs.size() == n && here.slots.size() == n,
          "arrays of lists that fit each other");
  std::size_t end = 0;
  for (std::size_t q = 0; q < n_queries; ++q) {
    require(end <= here.begins[q] && here.counts[q] <= kMostPoolList, "lists one after another");
    end = std::size_t{here.begins[q]} + here.counts[q];
  }
  require(end <= n, "lists one after another");
}

// An arm as the library takes it.
class Arm {
 public:
  Arm(PoolLists const& lists, std::uint32_t n_queries) : lists_(lists) {
    check_lists(lists, n_queries);
    params.kind = lists.kind;
    params.lists = lists.here;
    if (lists.search != nullptr) set_search(n_queries);
  }
  Arm(Arm const&) = delete;
  Arm& operator=(Arm const&) = delete;

  void accept() const {
    if (pass_) pass_->accept();
  }
  // Of the results of this arm: adds the queries whose search lacks some rows.
  void add_lost(std::uint32_t const* overflows, std::vector<std::uint32_t>& lost) const {
    for (std::size_t i = 0; i < piece_.queries.size(); ++i)
      if (overflows[i] != 0) lost.push_back(piece_.queries[i]);
  }

  cuda::PoolArmParams params{};

 private:
  void set_search(std::uint32_t n_queries) {
    piece_ = Piece::all(*lists_.search);
    sizes_.emplace(*lists_.search, lists_.table->tile_rows());
    pass_.emplace(*lists_.table, *lists_.search, piece_, *sizes_);
    require(pass_->params.depth <= kMostPoolList, "lists that are sorted");
    places_.assign(n_queries, kNone32);
    for (std::uint32_t i = 0; i < piece_.queries.size(); ++i) places_[piece_.queries[i]] = i;
    for (std::uint32_t q = 0; q < n_queries; ++q) begins_.push_back(q * pass_->params.depth);
    params.search = &pass_->params;
    params.queries = piece_.queries.data();
    params.places = places_.data();
    params.asks = lists_.asks.data();
    params.depth = lists_.depth;
    params.has_floor = lists_.has_floor ? 1 : 0;
    params.lists.begins = begins_;
  }

  PoolLists const& lists_;
  Piece piece_;
  std::optional<ScopeSizes> sizes_;
  std::optional<Pass> pass_;
  std::vector<std::uint32_t> places_, begins_;
};

}  // namespace

void make_hits(std::string const& folder, int ordinal, PoolBatch const& batch,
               TakePools const& take) {
  require(
      !batch.arms.empty() && batch.arms.size() <= kMostPoolArms && batch.n_queries <= kMostTogether,
      "lists of one to four arms");
  std::deque<Arm> arms;  // where they stay
  std::vector<cuda::PoolArmParams> params_of_arms;
  bool times_kernels = false;
  for (PoolLists const& lists : batch.arms) {
    arms.emplace_back(lists, batch.n_queries);
    params_of_arms.push_back(arms.back().params);
    times_kernels =
        times_kernels || (lists.search != nullptr && lists.search->settings.times_kernels);
  }
  cuda::KernelTimes times{};
  cuda::PoolParams params{};
  params.device = ordinal;
  params.n_queries = batch.n_queries;
  params.arms = params_of_arms;
  params.fusion = batch.fusion;
  params.times = times_kernels ? &times : nullptr;
  auto const hand_over = [&](PoolResults const& results) {
    std::vector<std::uint32_t> lost;
    for (std::size_t arm = 0; arm < arms.size(); ++arm)
      if (results.overflows[arm] != nullptr) arms[arm].add_lost(results.overflows[arm], lost);
    std::sort(lost.begin(), lost.end());
    lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
    take(results, lost);
  };
  call_taking(require_library(folder, ordinal), ordinal, &cuda::Api::run_pool, params, hand_over);
  add_kernel_times(times);
  for (Arm const& arm : arms) arm.accept();
}

}  // namespace hyrecall::device
