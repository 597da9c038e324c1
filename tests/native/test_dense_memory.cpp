// The dense pass without enough memory, and by many threads at once.
#include <atomic>
#include <thread>

#include "core/error.hpp"
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"

namespace hyrecall::testing {
namespace {

bool is_refused(device::DeviceTable const& table, WorldBatch const& batch) {
  try {
    found_of(table, batch.search());
  } catch (Error const& error) {
    CHECK(error.code() == ErrorCode::kDeviceMemory);
    CHECK_EQ(error.argument(), "device");
    CHECK(std::string(error.what()).find("cuda:0") != std::string::npos);
    return true;
  }
  return false;
}

WorldBatch batch_of(Rng& rng, DeviceWorld const& world, int n_queries) {
  WorldBatch batch;
  batch.see(world.everything());
  for (int q = 0; q < n_queries; ++q) batch.ask(0, random_query(rng, world), 10);
  return batch;
}

// What handles hold: a search that fits nowhere, with more codes than any other test has bytes,
// gives the memory of every idle search back.
std::size_t bytes_held(DeviceWorld const& world, device::DeviceTable const& table) {
  WorldBatch batch;
  batch.codes.resize(std::size_t{1} << 21);
  batch.see(world.everything());
  batch.ask(0, std::vector<float>(world.dim, 1.0f), 1);
  MemoryOf const limit(1);
  CHECK(is_refused(table, batch));
  return emulated().allocated_bytes();
}

TEST(device_halves_what_does_not_fit) {
  skip_under_thread_sanitizer();
  Rng rng(1);
  DeviceWorld const world = random_world(rng, RowType::kFloat32, 16, {400, 112});
  auto const table = world.upload();
  WorldBatch const batch = batch_of(rng, world, 24);
  check_batch(world, *table, batch);
  std::size_t const held = bytes_held(world, *table);
  std::uint64_t launches = 0;
  std::size_t n_refused = 0;
  // A query needs about 6 KB of candidates and 10 KB of everything else.
  for (std::size_t room = std::size_t{1} << 12; room < std::size_t{1} << 20; room *= 2) {
    {
      MemoryOf const limit(held + room);
      std::uint64_t const before = emulated().n_launches();
      if (is_refused(*table, batch)) {
        n_refused += 1;
        CHECK(launches == 0);  // with more memory it fits too
      } else {
        check_batch(world, *table, batch);
        std::uint64_t const now = emulated().n_launches() - before;
        CHECK(launches == 0 || now <= launches);
        launches = now;
      }
      CHECK(emulated().allocated_bytes() <= held + room);
    }
    check_batch(world, *table, batch_of(rng, world, 3));  // the next call works
    CHECK_EQ(bytes_held(world, *table), held);
  }
  CHECK(n_refused >= 1 && n_refused <= 3);
}

TEST(device_halves_what_overflowed_and_does_not_fit) {
  skip_under_thread_sanitizer();
  Rng rng(2);
  DeviceWorld world{RowType::kFloat32, 8, {{}}};
  std::vector<float> const same = random_vector(rng, 8);
  for (int i = 0; i < 2000; ++i) world.add_row(world.segments[0], same, scattered_seq(i));
  world.place();
  auto const table = world.upload();
  WorldBatch batch = batch_of(rng, world, 16);
  batch.tuning = kTight;
  std::size_t const held = bytes_held(world, *table);
  // All 16 with 64 candidates fit, and of those that keep all rows a few.
  MemoryOf const limit(held + 100'000);
  check_batch(world, *table, batch);
  // Not one that keeps all rows.
  MemoryOf const less(held + 22'000);
  CHECK(is_refused(*table, batch));
}

TEST(device_memory_comes_back_when_handles_die) {
  Rng rng(3);
  DeviceWorld const world = random_world(rng, RowType::kFloat16, 20, {300, 0, 130});
  auto const anchor = world.upload();
  WorldBatch const batch = batch_of(rng, world, 5);
  std::size_t const before = bytes_held(world, *anchor);
  std::size_t used = 0;
  {
    auto const table = world.upload();
    used = emulated().allocated_bytes() - before;
    check_batch(world, *table, batch);
    CHECK_EQ(bytes_held(world, *table), before + used);
  }
  CHECK_EQ(emulated().allocated_bytes(), before);
  // Wherever in making them the memory ends.
  std::size_t n_refused = 0;
  for (std::size_t room = 0;; room += 512) {
    MemoryOf const limit(before + room);
    bool fits = true;
    try {
      auto const table = world.upload();
    } catch (Error const& error) {
      CHECK(error.code() == ErrorCode::kDeviceMemory);
      fits = false;
      n_refused += 1;
    }
    CHECK_EQ(emulated().allocated_bytes(), before);
    if (fits) break;
    CHECK(room <= 2 * used);  // rows of 16 bits are there twice for a moment
  }
  CHECK(n_refused > 10);
  check_batch(world, *anchor, batch);
}

TEST(device_segment_says_how_many_bytes_it_holds) {
  Rng rng(4);
  DeviceWorld const world = random_world(rng, RowType::kFloat32, 33, {300});
  std::size_t const before = emulated().allocated_bytes();
  WorldSegment const& one = world.segments[0];
  device::ColumnArrays const column{world.type, world.dim, one.rows.data(),
                                    one.inverse_norms.data()};
  device::DeviceSegment const segment(HYRECALL_EMULATED_FOLDER, 0, one.seqs, {},
                                      std::span(&column, 1));
  std::size_t const now = emulated().allocated_bytes() - before;
  CHECK(segment.bytes() <= now);
  CHECK(segment.bytes() + 64 >= now);  // empty arrays hold a byte
}

TEST(device_serves_threads_while_segments_come_and_go) {
  Rng rng(5);
  DeviceWorld const world = random_world(rng, RowType::kFloat32, 8, {300, 200});
  auto const table = world.upload();
  std::vector<WorldBatch> batches;
  for (int t = 0; t < 8; ++t) {
    batches.push_back(batch_of(rng, world, 1 + t % 3));
    if (t % 2 == 0) batches.back().tuning = kTight;
  }
  std::atomic<int> n_wrong = 0;
  std::atomic<bool> is_over = false;
  auto const guarded = [&](auto&& body) {
    try {
      body();
    } catch (std::exception const&) {
      n_wrong += 1;
    }
  };
  std::thread maker([&] {
    while (!is_over) guarded([&] { check_batch(world, *world.upload(), batches[0]); });
  });
  std::vector<std::thread> askers;
  for (int t = 0; t < 8; ++t) {
    askers.emplace_back([&, t] {
      for (int round = 0; round < 6; ++round)
        guarded([&] { check_batch(world, *table, batches[(t + round) % 8]); });
    });
  }
  for (std::thread& asker : askers) asker.join();
  is_over = true;
  maker.join();
  CHECK_EQ(n_wrong.load(), 0);
}

// Room for one of them: they take turns.
TEST(device_answers_every_thread_when_memory_is_short) {
  Rng rng(6);
  DeviceWorld const world = random_world(rng, RowType::kFloat32, 8, {300, 200});
  auto const table = world.upload();
  WorldBatch const batch = batch_of(rng, world, 4);
  std::size_t const held = bytes_held(world, *table);
  std::atomic<int> n_answered = 0, n_wrong = 0;
  {
    MemoryOf const limit(held + 50'000);
    std::vector<std::thread> askers;
    for (int t = 0; t < 6; ++t) {
      askers.emplace_back([&] {
        for (int round = 0; round < 6; ++round) {
          try {
            check_batch(world, *table, batch);
            n_answered += 1;
          } catch (std::exception const&) {
            n_wrong += 1;
          }
        }
      });
    }
    for (std::thread& asker : askers) asker.join();
    CHECK(emulated().allocated_bytes() <= held + 50'000);
    check_batch(world, *table, batch);  // alone it fits
  }
  CHECK_EQ(n_wrong.load(), 0);
  CHECK_EQ(n_answered.load(), 36);
  check_batch(world, *table, batch);
  CHECK_EQ(bytes_held(world, *table), held);
}

}  // namespace
}  // namespace hyrecall::testing
