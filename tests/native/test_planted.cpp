// Libraries with one bug each (cmake/planted_bugs.cmake): random batches must find every one.
#include <cstdlib>
#include <string>

#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/planted.hpp"

namespace hyrecall::testing {
namespace {

constexpr int kPlantRounds = 96;

bool has_misleading_sample(int round) {
  return round >= 60 && round < 70;
}

// Drawn for itself, so that rounds can be tried in any order.
RandomCase case_of(Rng& rng, int round, bool is_wide) {
  bool const is_misleading = has_misleading_sample(round);
  RandomCase chosen;
  chosen.type = round % 4 < 2 ? RowType::kFloat32 : RowType::kBFloat16;
  chosen.dim = 1 + rng.below(round % 5 == 0 ? 300u : 40u);
  chosen.sizes = {rng.below(500u), 1 + rng.below(300u)};
  chosen.n_queries = 1 + rng.below(12u);
  chosen.most_depth = 25;
  if (round % 2 == 1) {
    chosen.is_half_exact = true;
    chosen.dim = 4 + rng.below(10u);
    chosen.sizes = {round % 4 == 1 ? 128u : 300u};
    chosen.n_queries = 32;
    chosen.most_depth = 120;  // where scores lie closest
  }
  if (round % 6 == 2) chosen.tuning = kTight;
  if (round % 6 >= 4) chosen.tuning = DenseTuning{400, 1, 2};
  if (is_misleading) {
    chosen.is_misleading = true;
    chosen.is_half_exact = false;
    chosen.type = RowType::kBFloat16;  // which leaves little error to let other rows pass
    chosen.sizes = {40 * kTileRows};
    chosen.dim = 8 + rng.below(10u);
    chosen.n_queries = 12;
    chosen.most_depth = 103;  // of more, the sample makes no guess
    chosen.tuning = DenseTuning{40 * kTileRows, 1, 2};
  }
  if (round >= 70 && round < 80) {
    chosen.is_split = true;
    chosen.is_half_exact = false;
    chosen.sizes = {1500};
  }
  if (round >= 80) {  // scores as close as they lie, after a sample: many pass in a block
    bool const is_deep = round % 4 < 2;
    chosen.is_half_exact = true;
    chosen.dim = 4 + rng.below(10u);
    chosen.sizes = {is_deep ? 600u : 1300u};
    chosen.n_queries = round % 2 == 0 ? 32 : 150;  // wide panels, on Hopper
    chosen.most_depth = is_deep ? 120 : 8;
    chosen.tuning = DenseTuning{1300, 1, 2};
  }
  if (is_wide) chosen.dim = 300 + rng.below(800u);  // more chunks a row than stages
  return chosen;
}

// Where a bug is known to show. All the others are tried behind it.
struct Shows {
  int round = 0;
  std::uint64_t seed = 1;
  bool is_wide = false;
};

bool is_caught(std::string const& folder, Shows const& first = {}, int n_rounds = kPlantRounds) {
  for (int i = 0; i < n_rounds; ++i) {
    int const round = (first.round + i) % kPlantRounds;
    try {
      Rng rng(first.seed * kPlantRounds + static_cast<std::uint64_t>(round));
      RandomCase chosen = case_of(rng, round, first.is_wide);
      chosen.folder = folder;
      PlaneOf const forced(round % 8 == 3 || has_misleading_sample(round) ? "rows" : "int8");
      SeedOf const order(static_cast<std::uint64_t>(round % 6) + 6 * (first.seed - 1), folder);
      check_random(rng, chosen);
    } catch (std::exception const&) {  // a check's, or one of ours that should not be
      return true;
    }
  }
  return false;
}

// Which kernels a library that is loaded meanwhile takes.
class ComputeOf {
 public:
  explicit ComputeOf(char const* compute) { setenv("HYRECALL_EMULATOR_COMPUTE", compute, 1); }
  ~ComputeOf() {
    if (was_.empty()) {
      unsetenv("HYRECALL_EMULATOR_COMPUTE");
    } else {
      setenv("HYRECALL_EMULATOR_COMPUTE", was_.c_str(), 1);
    }
  }
  ComputeOf(ComputeOf const&) = delete;
  ComputeOf& operator=(ComputeOf const&) = delete;

 private:
  static std::string current() {
    char const* const text = std::getenv("HYRECALL_EMULATOR_COMPUTE");
    return text != nullptr ? text : "";
  }
  std::string const was_ = current();
};

bool is_caught_bug(char const* name, int round = 0) {
  if (is_left_out(name)) return true;
  ComputeOf const kernels("8.0");
  return is_caught(broken_folder(name), {round});
}

// Of a bug that makes a kernel read or write anywhere: the process may die of it.
bool is_caught_or_dies(std::string const& folder, char const* compute, Shows const& first = {}) {
  return status_of_child([&] {
           ComputeOf const kernels(compute);
           return is_caught(folder, first);
         }) != 0;
}

// A missing wait shows in some orders of threads.
constexpr std::uint64_t kSeeds = 4;

bool is_caught_or_dies(char const* name, Shows const& first = {}) {
  if (is_left_out(name)) return true;
  for (std::uint64_t i = 0; i < kSeeds; ++i) {
    std::uint64_t const seed = (first.seed - 1 + i) % kSeeds + 1;
    if (is_caught_or_dies(broken_folder(name), "8.0", {first.round, seed})) return true;
  }
  return false;
}

bool is_caught_or_dies_on_hopper(char const* name, Shows const& first) {
  if (is_left_out(name)) return true;
  std::string const folder = broken_folder(name);
  for (std::uint64_t i = 0; i < kSeeds; ++i) {
    std::uint64_t const seed = (first.seed - 1 + i) % kSeeds + 1;
    for (bool const is_wide : {first.is_wide, !first.is_wide}) {
      if (is_caught_or_dies(folder, "9.0", {first.round, seed, is_wide})) return true;
    }
  }
  return false;
}

bool is_fatal_on_hopper(char const* name, Shows const& first = {}) {
  if (is_left_out(name)) return true;
  std::string const folder = broken_folder(name);
  return is_fatal_in_a_child([&] {
    ComputeOf const kernels("9.0");
    is_caught(folder, first);
  });
}

TEST(device_planted_bugs_in_bounds_are_caught) {
  once_for_both_kernels();
  CHECK(!is_caught(HYRECALL_EMULATED_FOLDER, {}, cases(kPlantRounds)));
  CHECK(is_caught_bug("threshold_above_its_bound", 32));
  CHECK(is_caught_bug("cut_not_lowered", 5));
  CHECK(is_caught_bug("residual_of_the_tile", 6));
  CHECK(is_caught_bug("quick_test_without_the_residual", 4));
  CHECK(is_caught_bug("quick_cut_too_high", 16));
  CHECK(is_caught_bug("row_of_the_asking_lane", 2));
  CHECK(is_caught_bug("second_score_without_bound", 2));
  CHECK(is_caught_bug("lower_score_is_the_score", 93));
}

TEST(device_planted_bugs_in_the_choice_of_rows_are_caught) {
  once_for_both_kernels();
  CHECK(is_caught_bug("mask_skipped", 4));
  CHECK(is_caught_bug("first_mask_skipped"));
  CHECK(is_caught_or_dies("visits_of_the_first_panel", {83}));
  CHECK(is_caught_or_dies("others_left_out", {4}));
  CHECK(is_caught_or_dies("passing_sums_written_twice", {87, 4}));
  CHECK(is_caught_or_dies("passing_sums_not_waited_for", {23}));
  CHECK(is_caught_or_dies("classified_by_first_group", {5}));
  CHECK(is_caught_bug("masks_of_the_last_visit", 4));
  CHECK(is_caught_bug("overflow_ignored", 8));
  CHECK(is_caught_bug("ties_by_slot"));
  CHECK(is_caught_bug("rest_skipped", 2));
  CHECK(is_caught_bug("last_candidates_not_written", 2));
  CHECK(is_caught_bug("guess_taken_for_proof", 67));
  CHECK(is_caught_or_dies("first_rows_left_out", {1}));
  CHECK(is_caught_bug("strict_floor_ignored"));
}

// Tiles without a row that lives, of queries that read all of theirs first.
bool is_caught_on_dead_tiles(std::string const& folder) {
  Rng rng(5);
  DeviceWorld world = random_world(rng, RowType::kFloat32, 12, {5 * kTileRows});
  for (std::uint32_t row = 0; row < 5 * kTileRows; ++row) {
    if (row / kTileRows % 2 == 1) kill(world.segments[0], row);
  }
  WorldBatch batch;
  batch.see(world.everything());
  for (int q = 0; q < 9; ++q) batch.ask(0, random_query(rng, world), 400);
  try {
    check_batch(world, *world.upload({}, folder), batch);
  } catch (Failure const&) {
    return true;
  }
  return false;
}

TEST(device_planted_bugs_in_tiles_that_nobody_reads_are_caught) {
  once_for_both_kernels();
  CHECK(!is_caught_on_dead_tiles(HYRECALL_EMULATED_FOLDER));
  if (is_left_out("scores_not_cleared")) return;
  std::string const broken = broken_folder("scores_not_cleared");
  CHECK(status_of_child([&] { return is_caught_on_dead_tiles(broken); }) != 0);
}

TEST(device_planted_bugs_in_waiting_are_caught) {
  once_for_both_kernels();
  CHECK(is_caught_or_dies("barrier_missing"));
  CHECK(is_caught_or_dies("copies_not_waited_for", {1}));
  CHECK(is_caught_or_dies("list_not_waited_for", {1}));
  CHECK(is_caught_or_dies("shares_not_waited_for"));
}

TEST(device_planted_bugs_in_waiting_on_hopper_are_caught) {
  once_for_both_kernels();
  CHECK(is_caught_or_dies_on_hopper("stage_left_too_early", {1, 1, true}));
  CHECK(is_caught_or_dies_on_hopper("constants_overwritten_too_early", {4}));
  CHECK(is_caught_or_dies_on_hopper("constants_not_waited_for", {1}));
  CHECK(!is_caught_or_dies(HYRECALL_EMULATED_FOLDER, "9.0"));
  CHECK(is_caught_or_dies_on_hopper("chunk_not_waited_for", {0}));
}

TEST(device_planted_bugs_in_wide_panels_are_caught) {
  once_for_both_kernels();
  CHECK(is_caught_or_dies_on_hopper("wide_stage_left_too_early", {85, 1, true}));
  CHECK(is_caught_or_dies_on_hopper("wide_queries_not_waited_for", {81}));
}

TEST(device_planted_bugs_in_fences_stop_the_machine) {
  once_for_both_kernels();
  CHECK(is_fatal_on_hopper("sums_not_fenced", {1}));
  CHECK(is_fatal_on_hopper("barriers_not_published"));
  char const* const other = "stage_left_too_early";
  CHECK(is_left_out(other) || !is_fatal_on_hopper(other, {1, 1, true}));
}

}  // namespace
}  // namespace hyrecall::testing
