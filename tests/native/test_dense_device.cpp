// The dense pass on the emulated device: every type, plane, dimension and order of threads.
#include <unistd.h>

#include <thread>

#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/planted.hpp"

namespace hyrecall::testing {
namespace {

constexpr RowType kTypes[] = {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16};
constexpr char const* kPlanes[] = {"int8", "rows"};

// Rows of float32 and float16 are in no plane but int8.
bool is_there(char const* plane, RowType type) {
  return plane == kPlanes[0] || type == RowType::kBFloat16;
}

TEST(device_finds_what_a_full_sort_finds) {
  Rng rng(20261122);
  for (char const* plane : kPlanes) {
    PlaneOf const forced(plane);
    for (RowType type : kTypes) {
      if (!is_there(plane, type)) continue;
      check_random(rng, {type, 1, {40}, 3, 10});
      check_random(rng, {type, 31, {200, 1, 300}, 9, 20});
      check_random(rng, {type, 33, {130}, 40, 200});
      check_random(rng, {type, 64, {0, 513}, 70, 5});
      check_random(rng, {type, 257, {129, 128}, 5, 30});
    }
  }
}

TEST(device_finds_the_same_in_stages_with_little_room) {
  Rng rng(2);
  for (DenseTuning const tuning : {kTight, DenseTuning{300, 1, 3}, DenseTuning{64, 2, 32}}) {
    for (char const* plane : kPlanes) {
      PlaneOf const forced(plane);
      for (RowType type : kTypes) {
        if (!is_there(plane, type)) continue;
        check_random(rng, {type, 8, {900, 0, 1, 700}, 6, 40, tuning});
        check_random(rng, {type, 20, {400, 300}, 10, 15, tuning});
      }
    }
  }
}

TEST(device_finds_the_same_in_every_order_of_threads) {
  for (std::uint64_t seed = 0; seed < cases(6u); ++seed) {
    SeedOf const order(seed);
    Rng rng(3);
    for (char const* plane : kPlanes) {
      PlaneOf const forced(plane);
      check_random(rng, {RowType::kFloat16, 70, {200, 300}, 8, 30, kTight});
      check_random(rng, {RowType::kBFloat16, 100, {140}, 66, 20});
    }
    check_random(rng, {RowType::kFloat32, 17, {700}, 33, 12, DenseTuning{64, 1, 4}});
  }
}

TEST(device_takes_every_dimension) {
  Rng rng(4);
  std::vector<std::uint32_t> dims;
  for (std::uint32_t dim = 1; dim <= 300; dim += dim < 140 ? 1 : 1 + dim % 4) dims.push_back(dim);
  dims.push_back(1040);
  dims.push_back(1041);  // int8 dots from here on are not exact as float32
  for (std::uint32_t dim : dims) {
    PlaneOf const forced(kPlanes[dim / 3 % 2]);
    check_random(rng, {kTypes[dim % 3], dim, {20, 23}, 3, 12});
  }
  for (char const* plane : kPlanes) {
    PlaneOf const forced(plane);
    for (RowType type : kTypes) check_random(rng, {type, 1041, {150}, 2, 12, kTight});
  }
}

// The outermost norms that vectors may have (core/formulas.hpp), rows and queries.
TEST(device_takes_norms_from_2_to_minus_60_to_2_to_60) {
  skip_under_thread_sanitizer();
  Rng rng(5);
  for (char const* plane : kPlanes) {
    PlaneOf const forced(plane);
    for (RowType type : {RowType::kFloat32, RowType::kBFloat16}) {
      std::uint32_t const dim = 24;
      DeviceWorld world{type, dim, {{}}};
      auto const scaled = [&](std::vector<float> values) {
        double const norm = row_norm(dim, [&](std::size_t i) { return double{values[i]}; });
        double const wanted = rng.below(2) == 0 ? 0x1.04p-60 : 0x1.f8p59;
        for (float& value : values) value = static_cast<float>(value / norm * wanted);
        return values;
      };
      std::vector<float> const base = random_vector(rng, dim);
      for (int i = 0; i < 600; ++i) {
        std::vector<float> row = random_vector(rng, dim);
        for (std::uint32_t d = 0; d < dim && i % 2 == 0; ++d) row[d] = base[d] + row[d] * 0.01f;
        world.add_row(world.segments[0], scaled(row), scattered_seq(i));
      }
      world.place();
      for (float inverse : world.segments[0].inverse_norms) CHECK(inverse != 0.0f);
      WorldBatch batch;
      batch.see(world.everything());
      batch.tuning = kTight;
      for (int q = 0; q < 8; ++q)
        batch.ask(0, scaled(q % 2 == 0 ? base : random_vector(rng, dim)), 25);
      check_batch(world, *world.upload(), batch);
    }
  }
}

// Float16 has 24 bits below 1: rows of subnormal numbers alone.
TEST(device_takes_rows_of_subnormal_float16) {
  Rng rng(6);
  DeviceWorld world{RowType::kFloat16, 20, {{}}};
  for (int i = 0; i < 400; ++i) {
    std::vector<float> row = random_vector(rng, 20);
    for (float& value : row) value *= i % 3 == 0 ? 0x1p-23f : 0x1p-17f;
    world.add_row(world.segments[0], row, scattered_seq(i));
  }
  world.place();
  WorldBatch batch;
  batch.see(world.everything());
  batch.tuning = kTight;
  for (int q = 0; q < 6; ++q) batch.ask(0, random_query(rng, world), 20);
  check_batch(world, *world.upload(), batch);
}

// Threads that come while others are searched wait and go together, each with its own bits.
TEST(device_joins_searches_that_wait) {
  skip_under_thread_sanitizer();
  Rng rng(41);
  DeviceWorld world{RowType::kFloat32, 32, {{}, {}}};
  for (std::uint32_t i = 0; i < 900; ++i)
    world.add_row(world.segments[i % 3 == 0 ? 1 : 0], random_vector(rng, 32), i);
  world.place();
  auto const table = world.upload();
  constexpr std::size_t kThreads = 16;
  constexpr std::size_t kCalls = cases(8u);  // of a thread
  std::vector<WorldBatch> batches;
  std::vector<Found> alone;
  for (std::size_t call = 0; call < kThreads * kCalls; ++call) {
    WorldBatch& batch = batches.emplace_back();
    batch.see(world.everything());
    batch.see({{static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(call) + 200}});
    for (std::size_t q = 0; q < 8; ++q) batch.ask(q % 2, random_vector(rng, 32), 10);
    batch.group_of[call % 8] = call % 5 == 0 ? kNone32 : batch.group_of[call % 8];
  }
  for (WorldBatch const& batch : batches) alone.push_back(found_of(*table, batch.search()));
  std::vector<Found> found(batches.size());
  std::uint64_t const before = emulated().work().n_waits;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t call = 0; call < kCalls; ++call) {
        std::size_t const at = thread * kCalls + call;
        found[at] = found_of(*table, batches[at].search());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(emulated().work().n_waits - before <= 20);
  for (std::size_t call = 0; call < found.size(); ++call) {
    for (std::size_t q = 0; q < 8; ++q) CHECK(same_rows(found[call].rows[q], alone[call].rows[q]));
  }
}

// The child has copied the queue of a process that searches, and nobody there ends that search.
TEST(device_searches_in_a_forked_child_wait_for_no_parent) {
  skip_under_thread_sanitizer();
  Rng rng(42);
  DeviceWorld world{RowType::kFloat32, 8, {{}}};
  for (std::uint32_t i = 0; i < 200; ++i)
    world.add_row(world.segments[0], random_vector(rng, 8), i);
  world.place();
  auto const table = world.upload();
  WorldBatch batch;
  batch.see(world.everything());
  batch.ask(0, random_vector(rng, 8), 10);
  int status = 1;
  device::search(*table, batch.search(), [&](std::span<device::FoundRows const>) {
    status = status_of_child([&] {
      alarm(20);
      return found_of(*table, batch.search()).rows[0].size() != 10;
    });
  });
  CHECK_EQ(status, 0);
}

}  // namespace
}  // namespace hyrecall::testing
