// Thresholds from seeds of many rows: the best few keys of a seed are found without losing one, so
// that few candidates pass and one pass is enough.
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/planted.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::uint32_t kSeedRows = 3'000;

// So many queries that a CTA has the whole seed of one.
constexpr std::size_t kManyQueries = 12;

DeviceWorld seed_world(Rng& rng, bool has_ties) {
  DeviceWorld world{RowType::kFloat32, 3, {{}}};
  for (std::uint32_t i = 0; i < kSeedRows; ++i) {
    std::vector<float> const row =
        has_ties && i % 2 == 0 ? std::vector<float>{1.0f, 0.0f, 0.0f} : random_vector(rng, 3);
    world.add_row(world.segments[0], row, scattered_seq(i));
  }
  world.place();
  return world;
}

// Gives the launches of the batch, whose rows are those of a full sort.
std::uint64_t launches_of_seeds(Rng& rng, bool has_ties, std::uint32_t depth,
                                std::uint32_t capacity, std::string const& folder) {
  DeviceWorld const world = seed_world(rng, has_ties);
  auto const table = world.upload({}, folder);
  WorldBatch batch;
  batch.see(world.everything());
  for (std::size_t q = 0; q < kManyQueries; ++q) batch.ask(0, random_vector(rng, 3), depth);
  batch.tuning = {capacity, 64, 64};
  std::uint64_t const before = emulated(folder).work().n_launches;
  check_batch(world, *table, batch);
  return emulated(folder).work().n_launches - before;
}

// A further pass would be as many launches again.
void check_seeds(std::string const& folder) {
  Rng rng(61);
  std::uint64_t n_launches = 0;
  for (std::uint32_t const depth : {1u, 10u, 100u, 256u, 257u}) {
    std::uint64_t const n = launches_of_seeds(rng, false, depth, 2 * depth + 200, folder);
    if (n_launches == 0) n_launches = n;
    CHECK_EQ(n, n_launches);
  }
  // Thousands of equal keys have no room among the few.
  CHECK_EQ(launches_of_seeds(rng, true, 10, kSeedRows, folder), n_launches);
}

TEST(device_seed_of_many_rows_gives_a_threshold_that_few_pass) {
  skip_under_thread_sanitizer();
  check_seeds(HYRECALL_EMULATED_FOLDER);
}

bool is_seed_caught_in(char const* name) {
  std::string const folder = broken_folder(name);
  return status_of_child([&] {
           try {
             check_seeds(folder);
           } catch (Failure const&) {
             return true;
           }
           return false;
         }) != 0;
}

TEST(device_planted_bugs_in_the_best_few_of_a_seed_are_caught) {
  skip_under_thread_sanitizer();
  CHECK(is_seed_caught_in("few_keys_not_waited_for"));
  CHECK(is_seed_caught_in("few_keys_above_the_least"));
  CHECK(is_seed_caught_in("few_keys_of_half_the_rank"));
}

}  // namespace
}  // namespace hyrecall::testing
