#include "device/dense_device.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>

#include "core/error.hpp"
#include "device/device_library.hpp"
#include "device/device_scans.hpp"
#include "device/kernel_times.hpp"
#include "device/text_params.hpp"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::device {
namespace {

constexpr std::size_t kMostQueries = 1024;  // at a time: some 100 MB of candidates
// Candidates of all queries of a piece whose last search had too little room.
constexpr std::size_t kRepairCandidates = std::size_t{1} << 24;
constexpr std::size_t kRepairGrowth = 8;

// The int8 plane has half the bytes and twice the rate of 16-bit rows, and more candidates: few
// where its residuals are near 0.0075, as those of sentence embeddings are. Where a few dimensions
// stand out they are several times that, and from so many queries a tile on scoring the candidates
// would cost more than reading the rows (docs/kernels/dense.md).
constexpr float kLooseResidual = 0.03f;
constexpr double kManyQueries = 64.0;

// What reads rows as they are; float32 and float16 rows only by their int8 plane.
FirstPassPlane plane_of_rows(RowType type) {
  return type == RowType::kBFloat16 ? FirstPassPlane::kBFloat16 : FirstPassPlane::kInt8;
}

FirstPassPlane choose_plane(DeviceTable const& table, DensePlan const& plan, bool has_int8,
                            FirstPassChoice forced, Tuned const* tuned) {
  RowType const type = table.type();
  if (plane_of_rows(type) == FirstPassPlane::kInt8) return FirstPassPlane::kInt8;
  bool const is_loose =
      table.greatest_residual() > kLooseResidual && plan.queries_per_tile() >= kManyQueries;
  bool const is_tried = tuned == nullptr || tuned->plane == FirstPassPlane::kInt8;
  bool const is_better = has_int8 && !is_loose && is_tried;
  bool const is_possible = table.dim() <= max_first_pass_dim(FirstPassPlane::kInt8);
  if (is_possible && forced != FirstPassChoice::kRows &&
      (forced == FirstPassChoice::kInt8 || is_better))
    return FirstPassPlane::kInt8;
  return plane_of_rows(type);
}

// What was measured for such a batch, where nothing is forced.
Tuned const* tuned_for(DeviceTable const& table, DenseSearch const& batch) {
  Settings const& settings = batch.settings;
  bool const is_forced = settings.first_pass != FirstPassChoice::kAny || settings.tuning ||
                         settings.kernels != KernelChoice{};
  if (is_forced || table.is_lexical()) return nullptr;
  // Those that read a tile together: the sweeps have one scope.
  std::size_t const n_scopes = std::max<std::size_t>(batch.scopes.size(), 1);
  return find_tuned(table.folder(), table.ordinal(), plane_of_rows(table.type()), table.dim(),
                    (batch.group_of.size() + n_scopes - 1) / n_scopes);
}

// Some queries of a batch, with the least score that can still be among their best.
struct Piece {
  std::vector<std::uint32_t> queries;
  std::vector<float> floors;
  std::vector<std::uint8_t> strict;
  std::uint32_t capacity = 0;  // 0: as choose_tuning says; of lost queries: what was too little

  Piece part(std::size_t begin, std::size_t end) const {
    auto const cut = [&](auto const& all) {
      return std::remove_cvref_t<decltype(all)>{all.begin() + static_cast<std::ptrdiff_t>(begin),
                                                all.begin() + static_cast<std::ptrdiff_t>(end)};
    };
    return {cut(queries), cut(floors), cut(strict), capacity};
  }
};

// What a pass says of queries that lie on the device.
struct Taken {
  std::vector<std::uint32_t> rows;
  std::vector<float*> values;
  std::vector<GuestReading> readings;
};

// Keeps what goes wrong while results are taken: no exception passes through the library.
struct Receiver {
  std::function<void(cuda::SearchResults const&)> receive;
  std::exception_ptr error;

  static void take(void* context, cuda::SearchResults const& results) {
    auto& self = *static_cast<Receiver*>(context);
    try {
      self.receive(results);
    } catch (...) {
      self.error = std::current_exception();
    }
  }
};

class Searcher {
 public:
  Searcher(DeviceTable const& table, DenseSearch const& batch, TakeFound const& take)
      : table_(table),
        batch_(batch),
        take_(take),
        api_(require_library(table.folder(), table.ordinal())),
        tuned_(tuned_for(table, batch)),
        kernels_(tuned_ != nullptr ? kernels_of(*tuned_) : batch.settings.kernels),
        scans_(api_, table.ordinal(), kernels_) {
    require(batch.guest == nullptr || fits(*batch.guest), "a tensor as the column's");
    require(table.is_lexical() == (batch.text != nullptr), "queries as the column's");
    require(batch.kept == nullptr || (batch.kept->counts.size() == batch.group_of.size() &&
                                      batch.kept->depth() <= kMostSorted),
            "room for the lists of the batch, sorted");
    scope_rows_.reserve(batch.scopes.size());
    scope_tiles_.reserve(batch.scopes.size());
    for (SlotRanges const& scope : batch.scopes) {
      std::size_t rows = 0;
      std::size_t tiles = 0;
      std::uint32_t next = 0;  // the first that is not counted
      for (SlotRange const& range : scope) {
        rows += range.end - range.begin;
        std::uint32_t const end = (range.end - 1) / table.tile_rows() + 1;
        tiles += end - std::max(range.begin / table.tile_rows(), next);
        next = end;
      }
      scope_rows_.push_back(rows);
      scope_tiles_.push_back(tiles);
    }
  }

  void run() {
    Piece all;
    all.queries.reserve(batch_.group_of.size());
    all.floors.reserve(batch_.group_of.size());
    all.strict.reserve(batch_.group_of.size());
    for (std::uint32_t q = 0; q < batch_.group_of.size(); ++q) {
      if (batch_.group_of[q] == kNone32 || batch_.depths[q] == 0) continue;
      all.queries.push_back(q);
      all.floors.push_back(batch_.floors[q]);
      all.strict.push_back(batch_.strict[q]);
    }
    if (all.queries.size() <= kMostQueries) {
      if (!all.queries.empty()) run_piece(all);
      return;
    }
    for (std::size_t begin = 0; begin < all.queries.size(); begin += kMostQueries)
      run_piece(all.part(begin, std::min(all.queries.size(), begin + kMostQueries)));
  }

 private:
  bool fits(GuestRows const& guests) const {
    return guests.guest->tensor.dim == table_.dim() &&
           guests.guest->gate->ordinal() == table_.ordinal() &&
           guests.guest->gate->folder() == table_.folder();
  }

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
      return std::min(rows_in_scope(lost.queries[i]), kRepairGrowth * lost.capacity);
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

  // At least 1.
  std::size_t rows_in_scope(std::uint32_t query) const {
    return std::max<std::size_t>(scope_rows_[scope_of(query)], 1);
  }
  std::uint32_t scope_of(std::uint32_t query) const {
    return batch_.group_scopes[batch_.group_of[query]];
  }

  // One pass on the device; gives the queries that lost candidates, with thresholds for another.
  Piece run_whole(Piece const& piece) {
    std::size_t const n = piece.queries.size();
    std::uint32_t depth = 0;
    std::size_t most_rows = 1;
    std::size_t most_tiles = 1;
    std::vector<std::uint32_t> group_of, depths;
    group_of.reserve(n);
    depths.reserve(n);
    Taken taken;
    for (std::uint32_t q : piece.queries) {
      group_of.push_back(batch_.group_of[q]);
      std::size_t const rows = rows_in_scope(q);
      most_rows = std::max(most_rows, rows);
      most_tiles = std::max(most_tiles, scope_tiles_[scope_of(q)]);
      // A caller may want more rows than there are: all that it may see.
      depths.push_back(static_cast<std::uint32_t>(std::min<std::size_t>(batch_.depths[q], rows)));
      depth = std::max(depth, depths.back());
      if (batch_.guest != nullptr) {
        taken.rows.push_back(batch_.guest->rows[q]);
        taken.values.push_back(batch_.guest->values[q]);
      }
    }
    bool const is_lexical = table_.is_lexical();
    DenseTuning tuning =
        batch_.settings.tuning.value_or(is_lexical ? choose_lexical_tuning(n, depth, most_tiles)
                                                   : choose_tuning(depth, most_tiles, tuned_));
    // No query has more candidates than rows.
    tuning.capacity = static_cast<std::uint32_t>(std::min<std::size_t>(tuning.capacity, most_rows));
    bool const is_asked = !batch_.first_scores.empty();
    if (is_asked) tuning.capacity = static_cast<std::uint32_t>(most_rows);
    bool const is_repair = piece.capacity != 0;
    if (is_repair) tuning.capacity = piece.capacity;
    // Nothing is guessed; a lexical pass guesses nothing and reads all tiles at once.
    if (is_asked || is_repair) tuning.seed_tiles = is_lexical ? kNone32 : 0;
    auto const plan_for = [&](std::uint32_t wide_queries) {
      return DensePlan({batch_.scopes, batch_.group_scopes, batch_.group_filters, group_of, depths,
                        tuning, wide_queries, is_lexical, table_.tile_rows()});
    };
    FirstPassPlane plane = FirstPassPlane::kInt8;
    DensePlan const plan = is_lexical ? plan_for(0) : plan_dense(plan_for, plane);
    cuda::SearchParams params{};
    params.table = table_.handle();
    params.batch = plan.batch();
    params.n_ranges = plan.ranges.size();
    params.n_groups = plan.groups.size();
    params.n_runs = plan.runs.size();
    params.n_panel_queries = plan.panel_queries.size();
    params.n_panel_groups = plan.panel_groups.size();
    params.filters = array(batch_.filters);
    params.tests = array(batch_.tests);
    params.codes = array(batch_.codes);
    std::vector<LexicalText> texts;
    texts.reserve(is_lexical ? n : 0);
    for (std::uint32_t q : piece.queries) {
      if (is_lexical) texts.push_back(batch_.text->texts[q]);
    }
    if (is_lexical) params.text = params_of(*batch_.text, texts);
    params.queries = {batch_.queries.first, batch_.queries.stride, piece.queries.data()};
    if (batch_.guest != nullptr) {
      taken.readings.resize(n);
      Guest const& guest = *batch_.guest->guest;
      params.guest = {guest.gate->handle(), guest.tensor, taken.rows.data(), taken.values.data(),
                      taken.readings.data()};
    }
    if (batch_.kept != nullptr) {
      require(depth <= batch_.kept->depth(), "room for lists of this depth");
      params.kept = {batch_.kept->handle(), piece.queries.data()};
    }
    params.floors = piece.floors.data();
    params.strict = piece.strict.data();
    params.depths = depths.data();
    params.depth = depth;
    params.capacity = tuning.capacity;
    // A score takes half the room of a candidate.
    params.room = is_lexical ? tuning.capacity
                             : std::max(tuning.capacity, plan.most_whole_tiles * (kTileRows / 2));
    params.most_entries = std::max(tuning.capacity, plan.most_whole_tiles * kTileRows);
    params.most_samples = plan.most_sample_tiles * (kTileRows / kSampleRows);
    params.wide_queries = plan.wides.empty() ? 0 : plan.wide_panels * kPanelQueries;
    params.plane = plane;
    params.kernels = kernels_;
    std::vector<std::uint64_t> candidates(is_asked ? n * params.room : 0);
    if (is_asked) params.candidates = candidates.data();
    Piece lost;
    lost.capacity = tuning.capacity;
    auto const receive = [&](cuda::SearchResults const& results) {
      for (std::size_t i = 0; i < n; ++i) hand_over(piece, results, i, depth, lost);
      std::size_t const n_slots = batch_.first_scores.size() / batch_.group_of.size();
      for (std::size_t i = 0; is_asked && i < n; ++i) {
        for (std::size_t k = 0; k < results.counts[i]; ++k) {
          std::uint64_t const key = candidates[i * params.room + k];
          batch_.first_scores[piece.queries[i] * n_slots + candidate_slot(key)] =
              candidate_score(key);
        }
      }
    };
    Receiver receiver{receive, {}};
    params.take = &Receiver::take;
    params.context = &receiver;
    cuda::KernelTimes times{};
    if (batch_.settings.times_kernels) params.times = &times;
    check(api_.search(&params), table_.ordinal());
    add_kernel_times(times);
    if (receiver.error) std::rethrow_exception(receiver.error);
    for (std::size_t i = 0; batch_.guest != nullptr && i < n; ++i)
      batch_.guest->readings[piece.queries[i]] = taken.readings[i];
    require(!is_repair || tuning.capacity < most_rows || lost.queries.empty(),
            "room for every candidate");
    return lost;
  }

  // Chooses what a dense pass reads.
  template <typename PlanFor>
  DensePlan plan_dense(PlanFor const& plan_for, FirstPassPlane& plane) {
    bool const has_int8 = scans_.has(FirstPassPlane::kInt8);
    FirstPassPlane const first = has_int8 ? FirstPassPlane::kInt8 : plane_of_rows(table_.type());
    auto const wide_queries = [&](FirstPassPlane of) {
      std::uint32_t const bytes =
          of == FirstPassPlane::kInt8 ? table_.dim() : table_.dim() * item_bytes(table_.type());
      return scans_.wide_queries(of, chunks_of(bytes));
    };
    DensePlan plan = plan_for(wide_queries(first));
    plane = choose_plane(table_, plan, has_int8, batch_.settings.first_pass, tuned_);
    scans_.require_some(plane);
    if (wide_queries(plane) != wide_queries(first)) plan = plan_for(wide_queries(plane));
    return plan;
  }

  // What the piece's query number i found; one that lost candidates goes to `lost`.
  void hand_over(Piece const& piece, cuda::SearchResults const& results, std::size_t i,
                 std::size_t depth, Piece& lost) const {
    if (results.overflows[i] != 0) {
      float const threshold = results.thresholds[i];
      bool const is_floor = threshold <= piece.floors[i];
      lost.queries.push_back(piece.queries[i]);
      lost.floors.push_back(is_floor ? piece.floors[i] : threshold);
      lost.strict.push_back(is_floor ? piece.strict[i] : 0);
      return;
    }
    std::size_t const n = results.counts[i];
    if (batch_.kept != nullptr) {
      batch_.kept->counts[piece.queries[i]] = results.counts[i];
      return;
    }
    take_({piece.queries[i],
           {results.scores + i * depth, n},
           {results.seqs + i * depth, n},
           {results.slots + i * depth, n},
           depth <= kMostSorted});
  }

  DeviceTable const& table_;
  DenseSearch const& batch_;
  TakeFound const& take_;
  cuda::Api const& api_;
  Tuned const* tuned_;
  KernelChoice kernels_;
  DeviceScans scans_;
  std::vector<std::size_t> scope_rows_;   // [scope]
  std::vector<std::size_t> scope_tiles_;  // [scope]
};

}  // namespace

void search(DeviceTable const& table, DenseSearch const& batch, TakeFound const& take) {
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
  std::vector<SlotRanges> const scopes{{{0, n_slots}}};
  std::uint32_t const scope = 0;
  std::uint32_t const filter = kNone32;
  std::vector<std::uint32_t> const group_of(n, 0), depths(n, n_slots);
  std::vector<float> const floors(n, -std::numeric_limits<float>::infinity());
  std::vector<std::uint8_t> const strict(n, 0);
  std::vector<float> out(n * n_rows, std::numeric_limits<float>::quiet_NaN());
  DenseSearch batch{};
  batch.scopes = scopes;
  batch.group_scopes = std::span(&scope, 1);
  batch.group_filters = std::span(&filter, 1);
  batch.group_of = group_of;
  batch.queries = {queries.data(), column.dim};
  batch.floors = floors;
  batch.strict = strict;
  batch.depths = depths;
  batch.first_scores = out;
  batch.settings = settings;
  search(table, batch, [](FoundRows const&) {});
  return out;
}

}  // namespace hyrecall::device
