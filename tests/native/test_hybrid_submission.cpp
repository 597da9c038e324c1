// Searches and fusion in one submission on the emulated device: what is copied, and what becomes of
// queries that a search has lost and of a batch without room.
#include <bit>

#include "core/error.hpp"
#include "engine/recall.hpp"
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/hybrid_cases.hpp"

namespace hyrecall::testing {
namespace {

// A round that the device makes alone, with lists that depth cuts.
HybridRound cut_round(std::size_t depth) {
  HybridRound out;
  out.world.sizes = {300, 90};
  out.world.n_cells = 1;
  out.world.dim = 256;
  out.n_queries = 40;
  out.depth = depth;
  return out;
}

emulator::DeviceWork work_since(emulator::DeviceWork const& before) {
  return emulated().work() - before;
}

std::size_t in_lines(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// Nothing is read between the searches and the hits; the vectors of the queries go down once.
TEST(device_hybrid_batch_copies_queries_down_and_hits_up) {
  skip_under_thread_sanitizer();
  for (std::size_t const depth : {20u, 300u}) {
    Rng rng(36);
    HybridRound const round = cut_round(depth);
    Snapshot const on_host = random_text_world(rng, round.world);
    BatchRequest request = random_hybrid_request(rng, round, on_host);
    request.offset = 0;
    request.limit = 10;
    request.min_fused = {};
    Snapshot const on_device = with_postings(on_host);
    Execution const execution(on_device, request);
    execution.candidates(execution.statistics());
    emulator::DeviceWork const first = emulated().work();
    execution.candidates(execution.statistics());
    emulator::DeviceWork const of_lists = work_since(first);
    execution.hits(execution.statistics());
    emulator::DeviceWork const second = emulated().work();
    TimedReply const reply = execution.hits(execution.statistics());
    emulator::DeviceWork const work = work_since(second);
    CHECK(reply.arrays.rank.size() > 100);
    CHECK_EQ(work.n_copies_in, 1u);
    CHECK_EQ(work.n_copies_out, 1u);
    CHECK_EQ(work.n_waits, 1u);
    CHECK_EQ(work.n_launches, of_lists.n_launches + 3);
    CHECK_EQ(work.n_allocations, 0u);
    CHECK_EQ(work.n_pinned_allocations, 0u);
    CHECK_EQ(work.n_graphs, 0u);
    // Of a search how many rows it found, and whether some are missing.
    std::size_t const n = round.n_queries;
    std::size_t const flags = 2 * in_lines(4 * n);
    std::size_t const hits = in_lines(4 * n) + 2 * in_lines(8 * n * 10) +
                             2 * in_lines(2 * 4 * n * 10) + in_lines(7 * 8 * n);
    CHECK_EQ(work.bytes_out, 2 * flags + hits);
    // Where lists begin, how long they are, what is asked of their arms; texts.
    std::size_t const matrix = n * round.world.dim * sizeof(float);
    CHECK(work.bytes_in - of_lists.bytes_in < matrix / 4);
    CHECK(work.bytes_in < 3 * matrix);
  }
}

TEST(device_makes_no_hits_of_no_queries) {
  skip_under_thread_sanitizer();
  Rng rng(40);
  Snapshot const on_host = random_text_world(rng, cut_round(5).world);
  BatchRequest const request = random_hybrid_request(rng, cut_round(5), on_host).slice(0, 0);
  Snapshot const on_device = with_postings(on_host);
  Execution const execution(on_device, request);
  ReplyArrays const reply = execution.hits(execution.statistics()).arrays;
  CHECK_EQ(reply.offsets.size(), 1u);
  CHECK(reply.rank.empty());
}

// By a search that fits nowhere, with more codes than any other has bytes.
void give_idle_memory_back() {
  DeviceWorld world{RowType::kFloat32, 1, {{}}};
  world.add_row(world.segments[0], {1.0f}, 0);
  world.place();
  auto const table = world.upload();
  WorldBatch batch;
  batch.codes.resize(std::size_t{1} << 21);
  batch.see(world.everything());
  batch.ask(0, {1.0f}, 1);
  MemoryOf const limit(1);
  try {
    device::search(*table, batch.search(), [](std::span<device::FoundRows const>) {});
  } catch (Error const& error) {
    CHECK(error.code() == ErrorCode::kDeviceMemory);
  }
}

TEST(device_makes_hits_of_lists_that_do_not_fit_there) {
  skip_under_thread_sanitizer();
  Rng rng(39);  // some draws have lists that fit although their hits do not
  HybridRound const round = cut_round(300);
  Snapshot const on_host = random_text_world(rng, round.world);
  BatchRequest const request = random_hybrid_request(rng, round, on_host);
  std::vector<QueryCandidates> const pools = candidates_of(on_host, request);
  std::vector<QueryCandidates> const* const parts[] = {&pools};
  ReplyArrays const expected = merge(request, parts);
  Snapshot const on_device = with_postings(on_host);
  Execution const execution(on_device, request);
  auto const copied_out = [&] {
    emulator::DeviceWork const before = emulated().work();
    check_replies(execution.hits(execution.statistics()).arrays, expected);
    return work_since(before).bytes_out;
  };
  std::uint64_t const with_room = copied_out();
  std::size_t n_on_host = 0;
  std::size_t n_refused = 0;
  for (std::size_t room = std::size_t{1} << 12; room < std::size_t{1} << 24; room *= 2) {
    give_idle_memory_back();
    MemoryOf const limit(emulated().allocated_bytes() + room);
    try {
      n_on_host += copied_out() > with_room ? 1 : 0;
    } catch (Error const& error) {
      CHECK(error.code() == ErrorCode::kDeviceMemory);
      n_refused += 1;
    }
  }
  CHECK(n_refused > 0);
  CHECK(n_on_host > 0);
  CHECK_EQ(copied_out(), with_room);
}

}  // namespace
}  // namespace hyrecall::testing
