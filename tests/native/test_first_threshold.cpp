// The first threshold of a query, from a sample of its rows that threads may read in parts.
#include <vector>

#include "engine/dense/cohorts.hpp"
#include "engine/dense/first_threshold.hpp"
#include "engine/request/dense_query.hpp"
#include "native/check.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::uint32_t kDim = 24;

struct Guesses {
  std::vector<float> found;
  std::size_t n_made = 0;
};

Guesses guesses_of(World const& world, Asked& asked, DenseRequest const& arm, int threads) {
  asked.request.threads = threads;
  ResolvedScopes const scopes = resolve_scopes(world.snapshot, asked.request);
  QueryGroups const groups(asked.request);
  Audience const audience(world.snapshot, asked.request, scopes, groups);
  auto const cohorts = plan_cohorts(world.snapshot, asked.request, arm, audience);
  std::vector<QuantizedQuery> quantized;
  for (std::size_t q = 0; q < asked.request.n_queries; ++q)
    quantized.push_back(quantize_query(arm.query(q), kDim));
  Guesses guesses;
  guesses.found =
      guess_thresholds(world.snapshot, asked.request, arm, audience, cohorts, quantized);
  for (float const one : guesses.found) guesses.n_made += one == kNoGuess ? 0 : 1;
  return guesses;
}

// A part that is left out lowers a guess: no reply shows it, but more rows pass.
TEST(a_sample_gives_the_same_threshold_however_many_threads_read_it) {
  Rng rng(62);
  std::size_t n_made = 0;
  for (int round = 0; round < 6; ++round) {
    WorldOptions options;
    options.n_segments = 1 + rng.below(std::size_t{3});
    options.max_rows = 9'000;
    options.n_keys = 1 << 20;
    options.dim = kDim;
    options.first_pass = FirstPassChoice::kHead4;
    World const world = random_world(rng, options);
    std::size_t const n_queries = round % 2 == 0 ? 1 : 40;  // one item for all threads, and several
    Asked asked = random_asked(rng, options.n_cells, n_queries, 2, options.n_cells);
    asked.request.depth = 5;
    asked.request.settings.first_pass = FirstPassChoice::kHead4;
    std::vector<float> values;
    while (values.size() < n_queries * kDim) values.push_back(static_cast<float>(rng.below(5)) - 2);
    values[0] = 1.0f;
    DenseRequest arm;
    arm.queries = prepare_queries(values.data(), n_queries, kDim, {}, "vectors", 1);
    Guesses const whole = guesses_of(world, asked, arm, 1);
    n_made += whole.n_made;
    for (int const threads : {2, 3, 7, 64})
      CHECK(guesses_of(world, asked, arm, threads).found == whole.found);
  }
  CHECK(n_made > 20);
}

}  // namespace
}  // namespace hyrecall::testing
