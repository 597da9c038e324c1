#include "device/dense_pass.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "device/device.hpp"

namespace hyrecall::device {
namespace {

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

// How many queries of so many chunks a wide panel holds; 0: there is no kernel for one.
std::uint32_t wide_queries(std::span<ScanVariant const> scans, std::uint32_t n_chunks) {
  std::uint32_t most = 0;
  for (ScanVariant const& scan : scans) {
    bool const is_wide = scan.width > kPanelQueries && n_chunks <= most_wide_chunks(scan.width);
    if (is_wide) most = std::max(most, scan.width);
  }
  return most;
}

// What was measured for such a batch, where nothing is forced.
Tuned const* tuned_for(DeviceTable const& table, DenseSearch const& batch) {
  if (!batch.vector_begins.empty()) return nullptr;
  Settings const& settings = batch.settings;
  bool const is_forced = settings.first_pass != FirstPassChoice::kAny || settings.tuning ||
                         settings.kernels != KernelChoice{};
  if (is_forced || table.is_lexical()) return nullptr;
  // Those that read a tile together: the sweeps have one scope.
  std::size_t const n_scopes = std::max<std::size_t>(batch.scopes.size(), 1);
  return find_tuned(table.folder(), table.ordinal(), plane_of_rows(table.type()), table.dim(),
                    (batch.group_of.size() + n_scopes - 1) / n_scopes);
}

// Each row in scope has a place for its score, and nothing is read twice.
constexpr DenseTuning kManyVectors{1, kNone32, 1};

}  // namespace

Piece Piece::all(DenseSearch const& batch) {
  Piece out;
  std::size_t const n = batch.group_of.size();
  out.queries.reserve(n);
  out.floors.reserve(n);
  out.strict.reserve(n);
  for (std::uint32_t q = 0; q < n; ++q) {
    if (batch.group_of[q] == kNone32 || batch.depths[q] == 0) continue;
    out.queries.push_back(q);
    out.floors.push_back(batch.floors[q]);
    out.strict.push_back(batch.strict[q]);
  }
  return out;
}

Piece Piece::part(std::size_t begin, std::size_t end) const {
  auto const cut = [&](auto const& all) {
    return std::remove_cvref_t<decltype(all)>{all.begin() + static_cast<std::ptrdiff_t>(begin),
                                              all.begin() + static_cast<std::ptrdiff_t>(end)};
  };
  return {cut(queries), cut(floors), cut(strict), capacity};
}

ScopeSizes::ScopeSizes(DenseSearch const& batch, std::uint32_t tile_rows) : batch_(batch) {
  rows_.reserve(batch.scopes.size());
  tiles_.reserve(batch.scopes.size());
  for (SlotRanges const& scope : batch.scopes) {
    std::size_t rows = 0;
    std::size_t tiles = 0;
    std::uint32_t next = 0;  // the first that is not counted
    for (SlotRange const& range : scope) {
      rows += range.end - range.begin;
      std::uint32_t const end = (range.end - 1) / tile_rows + 1;
      tiles += end - std::max(range.begin / tile_rows, next);
      next = end;
    }
    rows_.push_back(std::max<std::size_t>(rows, 1));
    tiles_.push_back(tiles);
    most_tiles_ = std::max(most_tiles_, tiles);
  }
}

Pass::Pass(DeviceTable const& table, DenseSearch const& batch, Piece const& piece,
           ScopeSizes const& sizes)
    : table_(table), batch_(batch), piece_(piece), tuned_(tuned_for(table, batch)) {
  Guest const* const guest = batch.guest != nullptr ? batch.guest->guest : nullptr;
  require(guest == nullptr ||
              (guest->tensor.dim == table.dim() && guest->gate->ordinal() == table.ordinal() &&
               guest->gate->folder() == table.folder()),
          "a tensor as the column's");
  require(table.is_lexical() == (batch.text != nullptr), "queries as the column's");
  std::size_t const n = piece.queries.size();
  std::uint32_t depth = 0;
  std::size_t most_tiles = 1;
  group_of_.reserve(n);
  depths_.reserve(n);
  for (std::uint32_t q : piece.queries) {
    group_of_.push_back(batch.group_of[q]);
    std::size_t const rows = sizes.rows(q);
    most_rows = std::max(most_rows, rows);
    most_tiles = std::max(most_tiles, sizes.tiles(q));
    // A caller may want more rows than there are: all that it may see.
    depths_.push_back(static_cast<std::uint32_t>(std::min<std::size_t>(batch.depths[q], rows)));
    depth = std::max(depth, depths_.back());
  }
  bool const is_lexical = table.is_lexical();
  tuning_ =
      has_many()
          ? kManyVectors
          : batch.settings.tuning.value_or(is_lexical ? choose_lexical_tuning(n, depth, most_tiles)
                                                      : choose_tuning(depth, most_tiles, tuned_));
  bool const is_asked = !batch.first_scores.empty();
  bool const is_repair = piece.capacity != 0;
  // No query has more candidates than rows.
  std::size_t const capacity = is_repair  ? piece.capacity
                               : is_asked ? most_rows
                                          : std::min<std::size_t>(tuning_.capacity, most_rows);
  tuning_.capacity = static_cast<std::uint32_t>(capacity);
  // Nothing is guessed; a lexical pass guesses nothing and reads all tiles at once.
  if (is_asked || is_repair) tuning_.seed_tiles = is_lexical ? kNone32 : 0;
  params.table = table.handle();
  params.kernels = tuned_ != nullptr ? kernels_of(*tuned_) : batch.settings.kernels;
  params.filters = batch.filters;
  params.tests = batch.tests;
  params.codes = batch.codes;
  params.floors = piece.floors.data();
  params.strict = piece.strict.data();
  params.depths = depths_.data();
  params.depth = depth;
  params.capacity = tuning_.capacity;
  plan();
  set_queries();
}

// Plans what is read, of which plane.
void Pass::plan() {
  // Panels of a query each.
  bool const is_alone = table_.is_lexical() || has_many();
  auto const plan_for = [&](std::uint32_t wide_queries) {
    plan_.emplace(DensePlanInput{batch_.scopes, batch_.group_scopes, batch_.group_filters,
                                 group_of_, depths_, tuning_, wide_queries, is_alone,
                                 table_.tile_rows()});
  };
  params.plane = FirstPassPlane::kInt8;
  if (is_alone) {
    plan_for(0);
  } else {
    auto const chunks = [&](FirstPassPlane of) {
      return chunks_of(of == FirstPassPlane::kInt8 ? table_.dim()
                                                   : table_.dim() * item_bytes(table_.type()));
    };
    auto const scans = [&](FirstPassPlane of) {
      return scans_of(table_.folder(), table_.ordinal(), of, params.kernels);
    };
    std::vector<ScanVariant> own = scans(FirstPassPlane::kInt8);
    bool const has_int8 = !own.empty();
    FirstPassPlane const first = has_int8 ? FirstPassPlane::kInt8 : plane_of_rows(table_.type());
    if (!has_int8) own = scans(first);
    std::uint32_t const width = wide_queries(own, chunks(first));
    plan_for(width);
    params.plane = choose_plane(table_, *plan_, has_int8, batch_.settings.first_pass, tuned_);
    if (params.plane != first) own = scans(params.plane);
    if (own.empty()) {
      std::string const name = name_of({params.plane, kPanelQueries, true});
      throw Error(ErrorCode::kOption, "HYRECALL_CUDA_KERNELS",
                  "expected at least one kernel for " + name.substr(0, name.find(':')) +
                      ", got a value that excludes all of them");
    }
    std::uint32_t const of_plane = wide_queries(own, chunks(params.plane));
    if (of_plane != width) plan_for(of_plane);
  }
  set_plan(*plan_);
}

void Pass::set_plan(DensePlan const& plan) {
  params.batch = plan.batch();
  params.n_ranges = plan.ranges.size();
  params.n_groups = plan.groups.size();
  params.n_runs = plan.runs.size();
  params.n_panel_queries = plan.panel_queries.size();
  params.n_panel_groups = plan.panel_groups.size();
  // A score takes half the room of a candidate.
  std::uint32_t const of_scores = plan.most_whole_tiles * (kTileRows / 2);
  params.room = table_.is_lexical() ? tuning_.capacity : std::max(tuning_.capacity, of_scores);
  params.most_entries = std::max(tuning_.capacity, plan.most_whole_tiles * kTileRows);
  params.most_samples = plan.most_sample_tiles * (kTileRows / kSampleRows);
  params.wide_queries = plan.wides.empty() ? 0 : plan.wide_panels * kPanelQueries;
}

void Pass::set_queries() {
  if (batch_.text != nullptr) {
    texts_.reserve(piece_.queries.size());
    for (std::uint32_t q : piece_.queries) texts_.push_back(batch_.text->texts[q]);
    params.text = *batch_.text;
    params.text.texts = texts_;
  } else if (batch_.guest != nullptr) {
    for (std::uint32_t q : piece_.queries) {
      guest_rows_.push_back(batch_.guest->rows[q]);
      guest_values_.push_back(batch_.guest->values[q]);
    }
    readings_.resize(piece_.queries.size());
    Guest const& guest = *batch_.guest->guest;
    params.guest = {guest.gate->handle(), guest.tensor, guest_rows_.data(), guest_values_.data(),
                    readings_.data()};
  } else {
    params.queries = {&Pass::write_queries, this};
  }
  if (!has_many()) return;
  vector_begins_.push_back(0);
  for (std::uint32_t q : piece_.queries)
    vector_begins_.push_back(vector_begins_.back() + n_vectors(q));
  params.vector_begins = vector_begins_;
  if (batch_.sparse.of_segments.empty()) return;
  std::size_t const n_segments = table_.first_slots().size();
  sparse_begins_.push_back(0);
  for (std::uint32_t q : piece_.queries) {
    for (std::size_t s = 0; s < n_segments; ++s) {
      std::uint32_t const* const own = batch_.sparse.of_segments.data() + q * n_segments + s;
      auto const terms = batch_.sparse.runs.subspan(own[0], own[1] - own[0]);
      sparse_runs_.insert(sparse_runs_.end(), terms.begin(), terms.end());
      sparse_begins_.push_back(static_cast<std::uint32_t>(sparse_runs_.size()));
    }
  }
  params.sparse = {sparse_begins_, sparse_runs_};
}

void Pass::write_queries(void* context, float* to) {
  auto& self = *static_cast<Pass*>(context);
  std::span<std::uint32_t const> const queries = self.piece_.queries;
  QueryRows const& from = self.batch_.queries;
  std::size_t const dim = self.table_.dim();
  int const threads = queries.size() * dim < kSerialValues ? 1 : self.batch_.threads;
  auto const copy = [&](std::size_t row, std::size_t place) {
    std::memcpy(to + place * dim, from.first + row * from.stride, dim * sizeof(float));
  };
  try {
    parallel_runs(queries.size(), kShortRun, threads, [&](int, std::size_t i) {
      if (!self.has_many()) return copy(queries[i], i);
      for (std::uint32_t v = 0; v < self.n_vectors(queries[i]); ++v)
        copy(self.batch_.vector_begins[queries[i]] + v, self.vector_begins_[i] + v);
    });
  } catch (...) {  // an interrupt: nothing passes through the library
    self.error_ = std::current_exception();
  }
}

void Pass::accept() const {
  if (error_) std::rethrow_exception(error_);
  for (std::size_t i = 0; i < readings_.size(); ++i)
    batch_.guest->readings[piece_.queries[i]] = readings_[i];
}

}  // namespace hyrecall::device
