// Libraries with one bug each (cmake/planted_bugs.cmake): random batches must find every one.
#include <cstdlib>
#include <string>

#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/planted.hpp"

namespace hyrecall::testing {
namespace {

bool is_caught(std::string const& folder, bool is_wide = false, std::uint64_t seed = 1) {
  Rng rng(seed);
  for (int round = 0; round < 96; ++round) {
    bool const is_misleading = round >= 60 && round < 70;
    PlaneOf const forced(round % 8 == 3 || is_misleading ? "rows" : "int8");
    RandomCase chosen;
    chosen.folder = folder;
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
    try {
      SeedOf const order(static_cast<std::uint64_t>(round % 6) + 6 * (seed - 1), folder);
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

bool is_caught_bug(char const* name) {
  ComputeOf const kernels("8.0");
  return is_caught(broken_folder(name));
}

// Of a bug that makes a kernel read or write anywhere: the process may die of it.
bool is_caught_or_dies(std::string const& folder, char const* compute, bool is_wide = false,
                       std::uint64_t seed = 1) {
  return status_of_child([&] {
           ComputeOf const kernels(compute);
           return is_caught(folder, is_wide, seed);
         }) != 0;
}

// A missing wait shows in some orders of threads.
constexpr std::uint64_t kSeeds = 4;

bool is_caught_or_dies(char const* name) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (is_caught_or_dies(broken_folder(name), "8.0", false, seed)) return true;
  }
  return false;
}

bool is_caught_or_dies_on_hopper(char const* name) {
  std::string const folder = broken_folder(name);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (is_caught_or_dies(folder, "9.0", false, seed)) return true;
    if (is_caught_or_dies(folder, "9.0", true, seed)) return true;
  }
  return false;
}

bool is_fatal_on_hopper(char const* name) {
  std::string const folder = broken_folder(name);
  return is_fatal_in_a_child([&] {
    ComputeOf const kernels("9.0");
    is_caught(folder);
  });
}

// These choose their kernels themselves: a run on the kernels of 9.0 would only repeat them.
void once() {
  char const* const compute = std::getenv("HYRECALL_EMULATOR_COMPUTE");
  if (compute != nullptr && std::string(compute) == "9.0") {
    throw Skip("chooses its kernels itself, in the run on those of 8.0");
  }
}

TEST(device_planted_bugs_in_bounds_are_caught) {
  once();
  CHECK(!is_caught(HYRECALL_EMULATED_FOLDER));
  CHECK(is_caught_bug("threshold_above_its_bound"));
  CHECK(is_caught_bug("cut_not_lowered"));
  CHECK(is_caught_bug("residual_of_the_tile"));
  CHECK(is_caught_bug("quick_test_without_the_residual"));
  CHECK(is_caught_bug("quick_cut_too_high"));
  CHECK(is_caught_bug("row_of_the_asking_lane"));
  CHECK(is_caught_bug("second_score_without_bound"));
  CHECK(is_caught_bug("lower_score_is_the_score"));
}

TEST(device_planted_bugs_in_the_choice_of_rows_are_caught) {
  once();
  CHECK(is_caught_bug("mask_skipped"));
  CHECK(is_caught_bug("first_mask_skipped"));
  CHECK(is_caught_or_dies("visits_of_the_first_panel"));
  CHECK(is_caught_or_dies("others_left_out"));
  CHECK(is_caught_or_dies("passing_sums_written_twice"));
  CHECK(is_caught_or_dies("passing_sums_not_waited_for"));
  CHECK(is_caught_or_dies("classified_by_first_group"));
  CHECK(is_caught_bug("masks_of_the_last_visit"));
  CHECK(is_caught_bug("overflow_ignored"));
  CHECK(is_caught_bug("ties_by_slot"));
  CHECK(is_caught_bug("rest_skipped"));
  CHECK(is_caught_bug("last_candidates_not_written"));
  CHECK(is_caught_bug("guess_taken_for_proof"));
  CHECK(is_caught_or_dies("first_rows_left_out"));
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
  once();
  CHECK(!is_caught_on_dead_tiles(HYRECALL_EMULATED_FOLDER));
  std::string const broken = broken_folder("scores_not_cleared");
  CHECK(status_of_child([&] { return is_caught_on_dead_tiles(broken); }) != 0);
}

TEST(device_planted_bugs_in_waiting_are_caught) {
  once();
  CHECK(is_caught_or_dies("barrier_missing"));
  CHECK(is_caught_or_dies("copies_not_waited_for"));
  CHECK(is_caught_or_dies("list_not_waited_for"));
  CHECK(is_caught_or_dies("shares_not_waited_for"));
}

TEST(device_planted_bugs_in_waiting_on_hopper_are_caught) {
  once();
  CHECK(is_caught_or_dies_on_hopper("stage_left_too_early"));
  CHECK(is_caught_or_dies_on_hopper("constants_overwritten_too_early"));
  CHECK(is_caught_or_dies_on_hopper("constants_not_waited_for"));
  CHECK(!is_caught_or_dies(HYRECALL_EMULATED_FOLDER, "9.0"));
  CHECK(is_caught_or_dies_on_hopper("chunk_not_waited_for"));
}

TEST(device_planted_bugs_in_wide_panels_are_caught) {
  once();
  CHECK(is_caught_or_dies_on_hopper("wide_stage_left_too_early"));
  CHECK(is_caught_or_dies_on_hopper("wide_queries_not_waited_for"));
}

TEST(device_planted_bugs_in_fences_stop_the_machine) {
  once();
  CHECK(is_fatal_on_hopper("sums_not_fenced"));
  CHECK(is_fatal_on_hopper("barriers_not_published"));
  CHECK(!is_fatal_on_hopper("stage_left_too_early"));
}

}  // namespace
}  // namespace hyrecall::testing
