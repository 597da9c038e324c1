#include "device/dense_device.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.hpp"
#include "device/dense_pass.hpp"
#include "device/search_queue.hpp"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::device {
namespace {

// Candidates of all queries of a piece whose last search had too little room.
constexpr std::size_t kRepairCandidates = std::size_t{1} << 24;
constexpr std::size_t kRepairGrowth = 8;
// Of a pass of queries of many vectors, which has 12 bytes for each place of a query.
constexpr std::size_t kManyScores = std::size_t{1} << 25;

class Searcher {
 public:
  Searcher(DeviceTable const& table, DenseSearch const& batch, TakeFound const& take)
      : table_(table),
        batch_(batch),
        take_(take),
        api_(require_library(table.folder(), table.ordinal())),
        sizes_(batch, table.tile_rows()) {}

  void run() {
    Piece const all = Piece::all(batch_);
    std::size_t most = kMostTogether;
    if (!batch_.vector_begins.empty())
      most = std::clamp<std::size_t>(kManyScores / sizes_.most_places(), 1, most);
    if (all.queries.size() <= most) {
      if (!all.queries.empty()) run_piece(all);
      return;
    }
    for (std::size_t begin = 0; begin < all.queries.size(); begin += most)
      run_piece(all.part(begin, std::min(all.queries.size(), begin + most)));
  }

 private:
  // Halves what does not fit.
  void run_piece(Piece const& piece) {
    Piece lost;
    try {
      lost = run_whole(piece);
    } catch (Error const& error) {
      std::size_t const n = piece.queries.size();
      if (error.code() != ErrorCode::kDeviceMemory || n == 1) throw;
      run_piece(piece.part(0, n / 2));
      run_piece(piece.part(n / 2, n));
      return;
    }
    repair(lost);
  }

  // Queries whose candidates overflowed (rows about as near as the last that is wanted, by the
  // thousand), or whose guess was too high, search again from the threshold they have, with more
  // room; in the end with room for every row that they may see.
  void repair(Piece const& lost) {
    auto const room = [&](std::size_t i) {
      return std::min(sizes_.rows(lost.queries[i]), kRepairGrowth * lost.capacity);
    };
    for (std::size_t i = 0; i < lost.queries.size();) {
      std::size_t end = i + 1;
      std::size_t capacity = room(i);
      for (; end < lost.queries.size(); ++end) {
        std::size_t const larger = std::max(capacity, room(end));
        if (larger * (end + 1 - i) > kRepairCandidates) break;
        capacity = larger;
      }
      Piece piece = lost.part(i, end);
      piece.capacity = static_cast<std::uint32_t>(capacity);
      run_piece(piece);
      i = end;
    }
  }

  // One pass on the device; gives the queries that lost candidates, with thresholds for another.
  Piece run_whole(Piece const& piece) {
    Pass pass(table_, batch_, piece, sizes_);
    cuda::SearchParams& params = pass.params;
    std::size_t const n = piece.queries.size();
    bool const is_asked = !batch_.first_scores.empty();
    std::vector<std::uint64_t> candidates(is_asked ? n * params.room : 0);
    if (is_asked) params.candidates = candidates.data();
    Piece lost;
    lost.capacity = params.capacity;
    auto const receive = [&](cuda::SearchResults const& results) {
      std::vector<FoundRows> found;
      found.reserve(n);
      for (std::size_t i = 0; i < n; ++i) hand_over(piece, results, i, params.depth, lost, found);
      if (!found.empty()) take_(found);
      std::size_t const n_slots = batch_.first_scores.size() / batch_.group_of.size();
      for (std::size_t i = 0; is_asked && i < n; ++i) {
        for (std::size_t k = 0; k < results.counts[i]; ++k) {
          std::uint64_t const key = candidates[i * params.room + k];
          batch_.first_scores[piece.queries[i] * n_slots + candidate_slot(key)] =
              candidate_score(key);
        }
      }
    };
    cuda::KernelTimes times{};
    if (batch_.settings.times_kernels) params.times = &times;
    call_taking(api_, table_.ordinal(), &cuda::Api::search, params, receive);
    add_kernel_times(times);
    pass.accept();
    require(piece.capacity == 0 || params.capacity < pass.most_rows || lost.queries.empty(),
            "room for every candidate");
    return lost;
  }

  // What the piece's query number i found; one that lost candidates goes to `lost`.
  void hand_over(Piece const& piece, cuda::SearchResults const& results, std::size_t i,
                 std::size_t depth, Piece& lost, std::vector<FoundRows>& found) const {
    if (results.overflows[i] != 0) {
      float const threshold = results.thresholds[i];
      bool const is_floor = threshold <= piece.floors[i];
      lost.queries.push_back(piece.queries[i]);
      lost.floors.push_back(is_floor ? piece.floors[i] : threshold);
      lost.strict.push_back(is_floor ? piece.strict[i] : 0);
      return;
    }
    std::size_t const n = results.counts[i];
    found.push_back({piece.queries[i],
                     {results.scores + i * depth, n},
                     {results.seqs + i * depth, n},
                     {results.slots + i * depth, n},
                     depth <= kMostSorted});
  }

  DeviceTable const& table_;
  DenseSearch const& batch_;
  TakeFound const& take_;
  cuda::Api const& api_;
  ScopeSizes sizes_;
};

}  // namespace

void SearchArrays::add_program(std::span<TileTest const> program,
                               std::span<std::int64_t const> of_program) {
  filters.push_back(
      {static_cast<std::uint32_t>(tests.size()), static_cast<std::uint32_t>(program.size())});
  for (TileTest test : program) {
    if (test.kind == TileTestKind::kAnyOf) {
      auto const own = of_program.subspan(static_cast<std::size_t>(test.low), test.n);
      test.low = static_cast<std::int64_t>(codes.size());
      codes.insert(codes.end(), own.begin(), own.end());
    }
    tests.push_back(test);
  }
}

DenseSearch SearchArrays::view() const {
  DenseSearch out{};
  out.scopes = scopes;
  out.group_scopes = group_scopes;
  out.group_filters = group_filters;
  out.group_of = group_of;
  out.filters = filters;
  out.tests = tests;
  out.codes = codes;
  out.floors = floors;
  out.strict = strict;
  out.depths = depths;
  out.settings = settings;
  out.threads = threads;
  return out;
}

void search(DeviceTable const& table, DenseSearch const& batch, TakeFound const& take) {
  bool const may_wait = batch.guest == nullptr && batch.text == nullptr &&
                        batch.vector_begins.empty() && batch.first_scores.empty() &&
                        !batch.settings.times_kernels;
  std::size_t const n = batch.group_of.size();
  if (may_wait && n > 0 && n < kMostTogether && table.queue().is_of_this_process())
    return table.queue().run(table, batch, take);
  search_alone(table, batch, take);
}

void search_alone(DeviceTable const& table, DenseSearch const& batch, TakeFound const& take) {
  Searcher(table, batch, take).run();
}

std::vector<float> first_scores(std::string const& folder, int ordinal, ColumnArrays const& column,
                                std::size_t n_rows, std::span<float const> queries,
                                Settings const& settings) {
  std::vector<std::int64_t> seqs(n_rows);
  std::iota(seqs.begin(), seqs.end(), std::int64_t{0});
  auto segment = std::make_shared<DeviceSegment>(
      folder, ordinal, seqs, std::span<AttributeArrays const>{}, std::span(&column, 1));
  std::vector<std::shared_ptr<DeviceView const>> views{
      std::make_shared<DeviceView>(std::move(segment), std::span<std::uint64_t const>{})};
  DeviceTable const table(std::move(views), 0, column.type, column.dim);

  std::size_t const n = queries.size() / column.dim;
  auto const n_slots = static_cast<std::uint32_t>(n_rows);
  SearchArrays arrays;
  arrays.scopes = {{{0, n_slots}}};
  arrays.group_scopes = {0};
  arrays.group_filters = {kNone32};
  arrays.group_of.assign(n, 0);
  arrays.depths.assign(n, n_slots);
  arrays.floors.assign(n, -std::numeric_limits<float>::infinity());
  arrays.strict.assign(n, 0);
  arrays.settings = settings;
  std::vector<float> out(n * n_rows, std::numeric_limits<float>::quiet_NaN());
  DenseSearch batch = arrays.view();
  batch.queries = {queries.data(), column.dim};
  batch.first_scores = out;
  search(table, batch, [](std::span<FoundRows const>) {});
  return out;
}

}  // namespace hyrecall::device
