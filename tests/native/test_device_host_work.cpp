// What a batch on a device costs the host: copies, allocations and launches, on a device whose
// kernels do nothing.
#include <algorithm>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "engine/dense/on_device.hpp"
#include "engine/recall.hpp"
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/heap.hpp"
#include "native/text_cases.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {
namespace {

struct Cost {
  emulator::DeviceWork device;
  HeapUse heap;
};

// Of what `body` does in this thread.
template <typename Body>
Cost cost_of(Body&& body, std::string const& folder = HYRECALL_EMULATED_FOLDER) {
  emulator::DeviceWork const before = emulated(folder).work();
  HeapUse const heap = heap_use();
  body();
  HeapUse const used = heap_use() - heap;
  emulator::DeviceWork const after = emulated(folder).work();
  return {after - before, used};
}

// Not of the first such batch: it makes room and records.
template <typename Body>
Cost cost_of_repeated(Body&& body, std::string const& folder = HYRECALL_EMULATED_FOLDER) {
  body();
  return cost_of(body, folder);
}

void check_nothing_new(emulator::DeviceWork const& work) {
  CHECK_EQ(work.n_copies_in, 1u);
  CHECK_EQ(work.n_copies_out, 1u);
  CHECK_EQ(work.n_waits, 1u);
  CHECK_EQ(work.n_allocations, 0u);
  CHECK_EQ(work.n_pinned_allocations, 0u);
  CHECK_EQ(work.n_graphs, 0u);
}

// Some rows of one dimension, so that many fit.
DeviceWorld thin_world(std::uint32_t n_rows) {
  DeviceWorld world{RowType::kFloat32, 1, {{}}};
  for (std::uint32_t i = 0; i < n_rows; ++i) world.add_row(world.segments[0], {1.0f}, i);
  world.place();
  return world;
}

WorldBatch thin_batch(DeviceWorld const& world, std::size_t n_queries, std::uint32_t depth) {
  WorldBatch batch;
  batch.see(world.everything());
  for (std::size_t q = 0; q < n_queries; ++q) batch.ask(0, {1.0f}, depth);
  return batch;
}

TEST(device_batch_is_copied_once_each_way_and_makes_no_room_again) {
  NullDevice const null;
  // More rows than a seed has. Little room, as of all tests: some compare what is held before and
  // after.
  DeviceWorld const world = thin_world(17'000);
  auto const table = world.upload();
  for (std::size_t n_queries : {1u, 7u, 1024u}) {
    WorldBatch batch = thin_batch(world, n_queries, 100);
    if (n_queries > 100) batch.tuning = {512, 76, 32};
    Cost const cost = cost_of_repeated(
        [&] { device::search(*table, batch.search(), [](std::span<device::FoundRows const>) {}); });
    check_nothing_new(cost.device);
    // To prepare, a scan, to guess, a scan, to pick; on Hopper many queries have a scan of their
    // own.
    std::vector<std::string> const scans = device::scans(HYRECALL_EMULATED_FOLDER, 0, {});
    bool const has_wide = std::count(scans.begin(), scans.end(), "int8:256:sm_90a") > 0;
    CHECK_EQ(cost.device.n_launches, n_queries > 32 && has_wide ? 6u : 5u);
    CHECK(cost.device.bytes_out < 2'048 + (16 * 100 + 12) * n_queries);
    // Of a reply of 100 rows nothing is on the heap, of which a query needs little to be planned.
    if (heap_is_counted()) CHECK(cost.heap.bytes < 4096 + 400 * n_queries);
  }
}

// Where a tile serves many queries, these stay in shared memory: a wide panel reads each row once.
TEST(device_reads_rows_once_for_256_queries_on_hopper) {
  std::vector<std::string> const scans = device::scans(HYRECALL_EMULATED_FOLDER, 0, {});
  if (std::count(scans.begin(), scans.end(), "int8:256:sm_90a") == 0) throw Skip("no such kernel");
  constexpr std::uint32_t kDim = 768;
  constexpr std::uint32_t kTiles = 6;
  Rng rng(11);
  DeviceWorld world{RowType::kFloat32, kDim, {{}}};
  for (std::uint32_t i = 0; i < kTiles * kTileRows; ++i)
    world.add_row(world.segments[0], random_vector(rng, kDim), i);
  world.place();
  auto const table = world.upload();
  WorldBatch batch;
  batch.see(world.everything());
  constexpr std::size_t kQueries = 512;  // two wide panels
  std::vector<float> const query = random_vector(rng, kDim);
  for (std::size_t q = 0; q < kQueries; ++q) batch.ask(0, query, 1);
  batch.tuning = {kTiles * kTileRows, 1, 2};
  Cost const cost = cost_of([&] { found_of(*table, batch.search()); });
  std::uint64_t const tile = kTileRows * kDim;
  std::uint64_t const first =
      kTiles / 2 * (kQueries / kPanelQueries) * (tile + kPanelQueries * kDim);
  std::uint64_t const rest = kTiles * (kQueries / 256) * tile;
  // The queries once a CTA, of which there is one a multiprocessor at most.
  CHECK(cost.device.block_bytes >= first + rest + kQueries * kDim);
  CHECK(cost.device.block_bytes <= first + rest + kTiles * (kQueries / 256) * 256 * kDim);
}

TEST(device_times_each_kernel_of_a_batch_if_asked) {
  DeviceWorld const world = thin_world(1'000);
  auto const table = world.upload();
  WorldBatch batch = thin_batch(world, 3, 10);
  batch.tuning = {1000, 2, 2};
  device::take_kernel_times();
  auto const plain = found_of(*table, batch.search());
  CHECK(device::take_kernel_times().empty());
  device::DenseSearch search = batch.search();
  search.settings.times_kernels = true;
  std::uint64_t const graphs = emulated().work().n_graphs;
  for (int round = 0; round < 2; ++round) {
    Found const found = found_of(*table, search);
    for (std::size_t q = 0; q < 3; ++q) CHECK(same_rows(found.rows[q], plain.rows[q]));
  }
  CHECK_EQ(emulated().work().n_graphs, graphs);
  std::vector<device::KernelTotal> const totals = device::take_kernel_times();
  std::vector<std::string> names;
  for (device::KernelTotal const& one : totals) {
    names.push_back(one.name);
    CHECK_EQ(one.n_launches, 2u);
    CHECK(one.milliseconds > 0.0);
  }
  std::vector<std::string> const expected = {
      "copy in",          "prepare_queries",           "scan of the first tiles, 32 wide",
      "guess_thresholds", "scan of the rest, 32 wide", "pick_best",
      "copy out"};
  CHECK(names == expected);
  CHECK(device::take_kernel_times().empty());
}

// A request of `n_queries` dense queries, each with a cell and a filter of its own or all with all
// rows.
struct EngineBatch {
  static constexpr std::uint32_t kDim = 768;

  EngineBatch(std::size_t n_queries, bool is_scoped) : n(n_queries) {
    Rng rng(7);
    WorldOptions options;
    options.n_segments = 1;
    options.max_rows = 300;
    options.n_cells = is_scoped ? 1000 : 1;
    options.dim = kDim;
    world = random_world(rng, options);
    world.snapshot.device = std::make_shared<DeviceSnapshot const>(HYRECALL_EMULATED_FOLDER, 0,
                                                                   world.snapshot, nullptr);
    int const n_scopes = options.n_cells;
    for (int s = 0; s < n_scopes; ++s) {
      Scope scope;
      scope.cells.push_back(encoded(cell_name(s)));
      request.scopes.push_back(std::make_shared<Scope const>(std::move(scope)));
    }
    if (is_scoped) {
      FilterProgram between;
      between.kind = FilterProgram::Kind::kCodesBetween;
      between.column = kNumber;
      between.low = -2;
      between.high = 3;
      request.filters.push_back(std::make_shared<FilterProgram const>(between));
    }
    request.n_queries = n;
    for (std::size_t q = 0; q < n; ++q) {
      request.scope_of.push_back(static_cast<std::uint32_t>(q) %
                                 static_cast<std::uint32_t>(n_scopes));
      request.filter_of.push_back(is_scoped ? 0 : kNone32);
    }
    for (std::size_t i = 0; i < n * kDim; ++i)
      values.push_back(static_cast<float>(rng.unit()) - 0.5f);
    DenseRequest arm;
    arm.queries = prepare_queries(values.data(), n, kDim, {}, "vectors", 1);
    request.add(std::move(arm));
    request.depth = 10;
    request.set_fusion({Fusion::Kind::kNone, {1.0}, 60.0, {Fusion::Scale::kNone}, true, {}}, {},
                       false);
  }
  void run() const {
    Execution const execution(world.snapshot, request);
    CHECK_EQ(execution.candidates(execution.statistics()).size(), n);
  }

  std::size_t n;
  World world;
  std::vector<float> values;
  BatchRequest request;
};

TEST(device_batch_of_the_engine_is_copied_once_each_way) {
  NullDevice const null;
  for (bool const is_scoped : {false, true}) {
    EngineBatch const batch(1024, is_scoped);
    Cost const cost = cost_of_repeated([&] { batch.run(); });
    check_nothing_new(cost.device);
    std::size_t const matrix = 1024 * EngineBatch::kDim * sizeof(float);
    CHECK(cost.device.bytes_in >= matrix);
    if (heap_is_counted()) CHECK(cost.heap.bytes < matrix / 2);  // no copy of the queries
  }
}

TEST(device_batch_of_texts_is_copied_once_each_way) {
  OwnMachine const machine;  // so many candidates keep more memory than other tests may find
  NullDevice const null(machine.folder());
  Rng rng(8);
  TextWorldOptions options;
  options.sizes = {20'000, 500};
  options.n_cells = 30;
  Snapshot const snapshot = with_postings(random_text_world(rng, options), machine.folder());
  for (std::size_t n_queries : {1u, 200u}) {
    BatchRequest request = random_text_request(rng, options, Bm25Variant::kLucene, n_queries, 10);
    request.lexical[0].queries[0] = TextQuery::of_text("w1 w2");
    request.scope_of[0] = 0;
    Cost const cost = cost_of_repeated(
        [&] {
          Execution const execution(snapshot, request);
          CHECK_EQ(execution.candidates(execution.statistics()).size(), n_queries);
        },
        machine.folder());
    check_nothing_new(cost.device);
    CHECK_EQ(cost.device.n_launches, 5u);  // prepare, scan, cut, scan, pick
  }
}

// Where a batch of texts goes: both sides find the same, so only the device's work tells.
TEST(device_batch_of_few_postings_launches_nothing) {
  Rng rng(9);
  TextWorldOptions options;
  options.sizes = {20'000, 500};
  options.dim = 3;
  Snapshot const on_host = random_text_world(rng, options);
  Snapshot const on_device = with_postings(on_host);
  BatchRequest request = random_text_request(rng, options, Bm25Variant::kLucene, 20, 10);
  request.lexical[0].queries[0] = TextQuery::of_text("w1 w2");
  request.scope_of[0] = 0;
  std::uint64_t n_postings = 0;  // a query that has any counts as 2,048 more
  Execution const counted(on_host, request);
  for (QueryStatistics const& one : counted.statistics()[0]) {
    std::uint64_t own = 0;
    for (std::int64_t const doc_freq : one.doc_freqs) own += static_cast<std::uint64_t>(doc_freq);
    n_postings += own == 0 ? 0 : own + 2048;
  }
  auto const work = [&](std::uint64_t limit) {
    request.host_postings = limit;
    return cost_of([&] { CHECK(check_texts(on_host, on_device, request) > 5); }).device;
  };
  for (std::uint64_t const limit : {n_postings, ~std::uint64_t{0}}) {
    emulator::DeviceWork const none = work(limit);
    CHECK_EQ(none.n_launches, 0u);
    CHECK_EQ(none.n_copies_in, 0u);
  }
  for (std::uint64_t const limit : {std::uint64_t{0}, n_postings - 1})
    CHECK(work(limit).n_launches > 0);
  // Each part of a batch is sent by its own postings.
  request.host_postings = n_postings - 1;
  BatchRequest const part = request.slice(0, 1);
  CHECK_EQ(cost_of([&] { CHECK_EQ(check_texts(on_host, on_device, part), 1u); }).device.n_launches,
           0u);
  // Vectors launch anyway.
  request.host_postings = ~std::uint64_t{0};
  std::vector<float> const values(20 * options.dim, 1.0f);
  DenseRequest arm;
  arm.queries = prepare_queries(values.data(), 20, options.dim, {}, "vectors", 1);
  request.add(std::move(arm));
  CHECK(cost_of([&] { check_texts(on_host, on_device, request); }).device.n_launches > 4);
}

TEST(device_names_the_texts_that_it_cannot_search_wherever_the_batch_goes) {
  Rng rng(10);
  TextWorldOptions options;
  options.sizes = {300};
  options.vocabulary = 40;
  Snapshot const on_host = random_text_world(rng, options);
  Snapshot const on_device = with_postings(on_host);
  BatchRequest request = random_text_request(rng, options, Bm25Variant::kLucene, 3, 10);
  std::vector<TextQuery> leaves;
  for (int i = 0; i < 33; ++i) leaves.push_back(TextQuery::of_text("w" + std::to_string(i)));
  request.lexical[0].queries = {TextQuery::of_text("w1"),
                                TextQuery::any({TextQuery::all(leaves), TextQuery::of_text("w3")}),
                                std::nullopt};
  for (std::uint64_t const limit : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    request.host_postings = limit;
    CHECK_EQ(Execution(on_device, request).host_queries(0).size(), 1u);
    CHECK_EQ(Execution(on_device, request).host_queries(0).front().first, 1u);
    CHECK(Execution(on_host, request).host_queries(0).empty());
    std::vector<bool> const expected{limit != 0, true, limit != 0};
    CHECK(Execution(on_device, request).texts_on_host()[0] == expected);
    check_texts(on_host, on_device, request);
  }
}

}  // namespace
}  // namespace hyrecall::testing
