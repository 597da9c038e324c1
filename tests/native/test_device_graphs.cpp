// Recordings of searches: how many there are, and what they outlive. On a device whose kernels do
// nothing, since only the host's work counts here.
#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "engine/dense/column.hpp"
#include "engine/recall.hpp"
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/text_cases.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::size_t kMostQueries = 1024;
// 10,000 make no more recordings, and take ten seconds: HYRECALL_MIXED_BATCHES=10000.
int n_mixed_batches() {
  char const* const text = std::getenv("HYRECALL_MIXED_BATCHES");
  return text == nullptr ? 1'500 : std::atoi(text);
}

// A query with prefixes in place of fuzzy words: the host finds the postings of these, which are of
// more sizes than the recordings below are counted for.
TextQuery of_few_terms(TextQuery query) {
  if (query.kind == TextQuery::Kind::kFuzzy) return TextQuery::prefix(query.text, 0);
  for (TextQuery& child : query.children) child = of_few_terms(std::move(child));
  return query;
}

// Rows of one dimension, of which many fit.
struct ThinTable {
  explicit ThinTable(OwnMachine const& machine) {
    for (std::uint32_t i = 0; i < 17'000; ++i) world.add_row(world.segments[0], {1.0f}, i);
    world.place();
    table = world.upload({}, machine.folder());
  }
  void search(std::size_t n_queries, std::uint32_t depth, KernelChoice kernels = {}) const {
    WorldBatch batch;
    batch.see(world.everything());
    for (std::size_t q = 0; q < n_queries; ++q) batch.ask(0, {1.0f}, depth);
    batch.tuning = {512, 76, 32};  // little room
    device::DenseSearch asked = batch.search();
    asked.settings.kernels = kernels;
    device::search(*table, asked, [](std::span<device::FoundRows const>) {});
  }

  DeviceWorld world{RowType::kFloat32, 1, {{}}};
  std::shared_ptr<device::DeviceTable const> table;
};

// Requests of 1,024 queries: texts, vectors, both.
struct MixedRequests {
  MixedRequests(Rng& rng, OwnMachine const& machine) {
    options.sizes = {9'000, 300};
    options.max_words = 3;
    options.dim = 4;
    snapshot = with_postings(random_text_world(rng, options), machine.folder());
    for (int kind = 0; kind < 3; ++kind) {
      for (bool const has_trees : {false, true}) add(rng, kind, has_trees);
    }
  }

  void add(Rng& rng, int kind, bool has_trees) {
    BatchRequest request =
        random_text_request(rng, options, Bm25Variant::kLucene, kMostQueries, 10);
    request.threads = 1;
    for (auto& query : request.lexical[0].queries) {
      if (!has_trees) query = TextQuery::of_text(query_words(rng, 3, options.vocabulary));
      if (query) query = of_few_terms(std::move(*query));
    }
    if (kind == 1) request.lexical.clear();
    if (kind > 0) {
      std::vector<float> values(kMostQueries * options.dim);
      for (float& value : values) value = static_cast<float>(rng.unit()) - 0.5f;
      DenseRequest arm;
      arm.queries = prepare_queries(values.data(), kMostQueries, options.dim, {}, "vectors", 1);
      request.add(std::move(arm));
    }
    std::size_t const n = request.n_arms();
    request.set_fusion({n > 1 ? Fusion::Kind::kRrf : Fusion::Kind::kNone,
                        std::vector<double>(n, 1.0),
                        60.0,
                        std::vector<Fusion::Scale>(n, Fusion::Scale::kNone),
                        true,
                        {}},
                       {}, false);
    requests.push_back(std::move(request));
  }

  // Some queries of one of them, small numbers as often as large ones.
  void run(Rng& rng) const {
    static constexpr std::array<std::size_t, 7> kDepths{1, 10, 100, 257, 1000, 1024, 1025};
    BatchRequest const& from = requests[rng.below(requests.size())];
    auto const n = static_cast<std::size_t>(std::exp2(rng.unit() * 10.0) + 0.5);
    std::size_t const begin = rng.below(kMostQueries - n + 1);
    BatchRequest request = from.slice(begin, begin + n);
    request.depth = kDepths[rng.below(kDepths.size())];
    Execution const execution(snapshot, request);
    execution.hits(execution.statistics());
  }

  TextWorldOptions options;
  Snapshot snapshot;
  std::vector<BatchRequest> requests;
};

TEST(device_mixed_batches_are_few_recordings) {
  OwnMachine const machine;
  NullDevice const null(machine.folder());
  Rng rng(19);
  MixedRequests const mixed(rng, machine);
  int const n_batches = n_mixed_batches();
  for (int batch = 0; batch < n_batches; ++batch) mixed.run(rng);
  std::uint64_t const recorded = emulated(machine.folder()).work().n_graphs;
  CHECK(recorded <= 40);
  CHECK(recorded >= 30);  // they do differ
}

TEST(device_recordings_outlive_memory_that_grows) {
  OwnMachine const machine;
  NullDevice const null(machine.folder());
  Rng rng(20);
  MixedRequests const mixed(rng, machine);
  ThinTable const thin(machine);
  emulator::Controls const& controls = emulated(machine.folder());
  std::uint64_t at = 0;
  auto const recorded = [&] {
    std::uint64_t const now = controls.work().n_graphs;
    return now - std::exchange(at, now);
  };
  thin.search(3, 10);
  CHECK_EQ(recorded(), 1u);
  std::size_t const small = controls.allocated_bytes();
  thin.search(900, 300);
  CHECK_EQ(recorded(), 1u);
  std::size_t const large = controls.allocated_bytes();
  CHECK(large > 2 * small);
  thin.search(4, 10);
  CHECK_EQ(recorded(), 0u);
  // The fusion of a hybrid batch needs room too.
  BatchRequest request = mixed.requests[4].slice(0, 4);
  request.depth = 1000;
  Execution const execution(mixed.snapshot, request);
  execution.hits(execution.statistics());
  CHECK_EQ(recorded(), 1u);  // its texts; its vectors have the recording of the first batch
  thin.search(3, 10);
  CHECK_EQ(recorded(), 0u);
  // What fits nowhere makes all workspaces give back what they have.
  {
    MemoryOf const none(1, machine.folder());
    bool is_refused = false;
    try {
      thin.search(kMostQueries, 4096);
    } catch (Error const& error) {
      is_refused = error.code() == ErrorCode::kDeviceMemory;
    }
    CHECK(is_refused);
    CHECK(controls.allocated_bytes() < large);
  }
  CHECK_EQ(recorded(), 0u);
  thin.search(3, 10);
  CHECK_EQ(recorded(), 1u);
}

TEST(device_forgets_the_recording_that_was_used_least_recently) {
  OwnMachine const machine;
  NullDevice const null(machine.folder());
  ThinTable const thin(machine);
  // Choices that leave out kernels which no build has: as many keys as are wanted.
  auto const search = [&](std::uint64_t number) {
    KernelChoice kernels;
    for (std::uint32_t bit = 0; bit < 7; ++bit) {
      FirstPassPlane const plane = bit < 4 ? FirstPassPlane::kInt8 : FirstPassPlane::kBFloat16;
      std::uint32_t const width = bit % 4 < 2 ? 512 : 1024;
      if ((number >> bit & 1) != 0)
        kernels.excluded |= KernelChoice::bit({plane, width, bit % 2 == 1});
    }
    std::uint64_t const before = emulated(machine.folder()).work().n_graphs;
    thin.search(1, 10, kernels);
    return emulated(machine.folder()).work().n_graphs - before;
  };
  for (std::uint64_t number = 0; number < 64; ++number) CHECK_EQ(search(number), 1u);
  CHECK_EQ(search(0), 0u);
  CHECK_EQ(search(64), 1u);  // in the place of number 1
  for (std::uint64_t number = 2; number < 64; ++number) CHECK_EQ(search(number), 0u);
  CHECK_EQ(search(0), 0u);
  CHECK_EQ(search(1), 1u);  // in the place of number 64
  CHECK_EQ(search(0), 0u);
  CHECK_EQ(search(64), 1u);
}

}  // namespace
}  // namespace hyrecall::testing
