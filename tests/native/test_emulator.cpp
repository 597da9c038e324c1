// The machine of fibers itself: that it notices what would go wrong on a device.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>

#include "kernels/cuda/primitives.cuh"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

using namespace hyrecall::cuda;  // NOLINT: what kernels see

void run(unsigned n_threads, std::size_t shared_bytes, std::function<void()> const& body) {
  emulator::run_grid({1, 1, 1}, {n_threads, 1, 1}, shared_bytes, body);
}

// What a child process said before it was aborted; empty: it ended well.
std::string death(std::function<void()> const& body) {
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  std::fflush(nullptr);
  pid_t const child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    try {
      body();
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  bool const is_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  CHECK(is_well || !said.empty());
  return is_well ? "" : said;
}

bool has(std::string const& said, char const* what) {
  return said.find(what) != std::string::npos;
}

class OwnSeed {
 public:
  explicit OwnSeed(std::uint64_t seed) { emulator::set_seed(seed); }
  ~OwnSeed() { emulator::set_seed(1); }
  OwnSeed(OwnSeed const&) = delete;
  OwnSeed& operator=(OwnSeed const&) = delete;
};

// Each thread leaves its number and reads its neighbour's.
std::int64_t sum_of_neighbours(bool has_barrier) {
  std::vector<int> got(128, 0);
  run(128, 128 * sizeof(int), [&] {
    auto* const shared = reinterpret_cast<int*>(shared_memory());
    shared[threadIdx.x] = static_cast<int>(threadIdx.x);
    sync_warp();  // a turn for the others
    if (has_barrier) sync_block();
    got[threadIdx.x] = shared[(threadIdx.x + 33) % 128];
  });
  std::int64_t sum = 0;  // of a place that nobody has written yet, a large number
  for (int value : got) sum += value;
  return sum;
}

TEST(emulator_shows_a_missing_barrier) {
  std::set<std::int64_t> sums;
  for (std::uint64_t seed = 0; seed <= 5; ++seed) {
    OwnSeed const order(seed);
    CHECK_EQ(sum_of_neighbours(true), 127 * 64);
    sums.insert(sum_of_neighbours(false));
  }
  CHECK(sums.size() > 1 || *sums.begin() != 127 * 64);
}

TEST(emulator_reports_threads_that_wait_for_ever) {
  CHECK_EQ(death([] { run(64, 0, [] { sync_block(); }); }), "");
  std::string const one = death([] {
    run(64, 0, [] {
      if (threadIdx.x != 7) sync_block();
    });
  });
  CHECK(has(one, "deadlock") && has(one, "thread 8: barrier") && !has(one, "thread 7:"));
  std::string const lane = death([] {
    run(64, 0, [] {
      if (threadIdx.x != 40) ballot(true);
    });
  });
  CHECK(has(lane, "deadlock") && has(lane, "thread 41: warp collective"));
  // One lane is a collective behind, at another place than the others.
  std::string const behind = death([] {
    run(32, 0, [] {
      ballot(true);
      if (threadIdx.x != 3) ballot(false);
    });
  });
  CHECK(has(behind, "deadlock"));
  std::string const alone = death([] {
    run(32, 0, [] {
      if (threadIdx.x == 3) ballot(true);
    });
  });
  CHECK(has(alone, "deadlock") || has(alone, "a collective that not all lanes came to"));
  std::string const numbers =
      death([] { run(64, 0, [] { emulator::named_barrier(1, threadIdx.x < 32 ? 64 : 32); }); });
  CHECK(has(numbers, "a barrier with two numbers of threads"));
}

// Two threads add to one sum, with so many barriers between.
std::string death_of_sums(std::uint64_t seed, unsigned n_barriers) {
  return death([=] {
    emulator::set_seed(seed);
    run(64, 64, [=] {
      auto* const sums = reinterpret_cast<float*>(shared_memory());
      if (threadIdx.x == 0) shared_clear(sums);
      sync_block();
      if (threadIdx.x == 3) shared_add(&sums[2], 1.0f);
      for (unsigned i = 0; i < n_barriers; ++i) sync_block();
      if (threadIdx.x == 40) shared_add(&sums[2], 2.0f);
      if (threadIdx.x == 41) shared_add(&sums[3], 2.0f);
      sync_block();
      if (threadIdx.x == 9 && shared_load(sums).values[2] != 3.0f) emulator::fault("a sum of 3");
    });
  });
}

TEST(emulator_stops_at_a_sum_that_two_threads_touch_between_barriers) {
  for (std::uint64_t seed = 0; seed <= 5; ++seed) {
    CHECK(has(death_of_sums(seed, 0), "two threads on one word between two barriers"));
    CHECK_EQ(death_of_sums(seed, 1), "");
  }
  CHECK(has(death([] {
              run(64, 64, [] {
                shared_or(reinterpret_cast<std::uint32_t*>(shared_memory()), 1u << lane_id());
              });
            }),
            "two threads on one word between two barriers"));
  CHECK(has(death([] {
              run(32, 64, [] { shared_load(reinterpret_cast<float*>(shared_memory()) + 1); });
            }),
            "not aligned"));
}

alignas(16) unsigned char const g_bytes[64] = {1, 2,  3,  4,  5,  6,  7,  8,
                                               9, 10, 11, 12, 13, 14, 15, 16};

TEST(emulator_reports_copies_that_nobody_waits_for) {
  auto const copy = [](bool is_committed, bool is_waited_for) {
    return death([=] {
      run(32, 32 * 16, [=] {
        async_copy(shared_memory() + 16 * lane_id(), g_bytes);
        if (is_committed) cuda::commit_copies();
        if (is_waited_for) wait_copies<0>();
      });
    });
  };
  CHECK_EQ(copy(true, true), "");
  CHECK(has(copy(true, false), "did not wait for"));
  CHECK(has(copy(false, true), "did not wait for"));
  auto const at = [](std::size_t to, std::size_t from) {
    return death([=] {
      run(32, 64, [=] {
        async_copy(shared_memory() + to, g_bytes + from);
        cuda::commit_copies();
        wait_copies<0>();
      });
    });
  };
  CHECK_EQ(at(48, 0), "");
  CHECK(has(at(64, 0), "past shared memory"));
  CHECK(has(at(49, 0), "past shared memory"));
  CHECK(has(at(8, 0), "not aligned"));
  CHECK(has(at(16, 4), "not aligned"));
}

TEST(emulator_lands_copies_at_the_wait_or_before) {
  std::set<int> early;
  for (std::uint64_t seed = 0; seed <= 5; ++seed) {
    OwnSeed const order(seed);
    run(32, 64, [&] {
      if (lane_id() != 0) return;
      unsigned char* const to = shared_memory();
      async_copy(to, g_bytes);
      cuda::commit_copies();
      async_copy(to + 16, g_bytes);
      cuda::commit_copies();
      bool const has_landed = to[0] == 1;
      if (seed <= 1) CHECK(!has_landed && to[16] != 1);
      early.insert(has_landed ? 1 : 0);
      wait_copies<1>();
      CHECK(std::memcmp(to, g_bytes, 16) == 0);
      if (seed <= 1) CHECK(to[16] != 1);
      wait_copies<0>();
      CHECK(std::memcmp(to + 16, g_bytes, 16) == 0);
    });
  }
  CHECK_EQ(early.size(), 2u);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(emulator_reports_a_write_past_shared_memory) {
  auto const write = [](std::size_t at) {
    return death([=] {
      run(32, 1000, [=] {
        if (lane_id() == 5) static_cast<unsigned char volatile*>(shared_memory())[at] = 1;
      });
    });
  };
  CHECK_EQ(write(999), "");
  CHECK(has(write(1000), "heap-buffer-overflow"));
  CHECK(has(write(1030), "heap-buffer-overflow"));
}
#endif

// ---- collectives

TEST(emulator_collectives_are_those_of_a_warp) {
  for (std::uint64_t seed = 0; seed <= 5; ++seed) {
    OwnSeed const order(seed);
    run(64, 0, [] {
      unsigned const lane = lane_id();
      CHECK_EQ(ballot(lane % 3 == 0), 0x49249249u);
      CHECK_EQ(ballot(threadIdx.x >= 32), threadIdx.x >= 32 ? 0xffffffffu : 0u);
      CHECK_EQ(shuffle(lane * 10, 7), 70u);
      CHECK_EQ(shuffle(static_cast<double>(lane), (lane + 1) % 32), (lane + 1) % 32);
      CHECK_EQ(shuffle_down(lane, 4), lane < 28 ? lane + 4 : lane);
    });
  }
  CHECK_EQ(popcount(0xf0f0u), 8u);
  CHECK_EQ(lowest_bit(0x50u), 4u);
}

// PTX ISA, ldmatrix.x4: lane l points at row l % 8 of matrix l / 8; of each matrix it gets bytes
// 4 (l % 4) to 4 (l % 4) + 3 of row l / 4.
TEST(emulator_loads_matrices_as_the_isa_says) {
  run(32, 32 * 16, [] {
    unsigned const lane = lane_id();
    for (unsigned i = 0; i < 16; ++i)
      shared_memory()[16 * lane + i] = static_cast<unsigned char>(lane * 7 + i);
    sync_warp();
    std::uint32_t got[4];
    // Rows in an order of their own.
    load_matrices(got, shared_memory() + 16 * (lane ^ 5));
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
      unsigned const row = (8 * matrix + lane / 4) ^ 5;
      std::uint32_t wanted = 0;
      for (unsigned i = 0; i < 4; ++i) wanted |= ((row * 7 + 4 * (lane % 4) + i) & 0xffu) << 8 * i;
      CHECK_EQ(got[matrix], wanted);
    }
  });
}

// rows [16][32 bytes] times queries [8][32 bytes] by the layout of mma.m16n8k16 and m16n8k32: of
// the rows a lane has row l / 4 and the one 8 below, bytes 4 (l % 4) and 16 on; of the queries
// query l / 4; of the sums rows l / 4 and 8 below, queries 2 (l % 4) and the next.
template <typename Kind, typename Sum>
void check_product(Kind kind, std::function<double(unsigned char const*, unsigned)> const& value,
                   unsigned n_values, unsigned char const (&rows)[16][32],
                   unsigned char const (&queries)[8][32]) {
  run(32, 0, [&] {
    unsigned const lane = lane_id();
    std::uint32_t a[4];
    std::uint32_t b[2];
    for (unsigned i = 0; i < 4; ++i)
      std::memcpy(&a[i], &rows[lane / 4 + i % 2 * 8][4 * (lane % 4) + i / 2 * 16], 4);
    for (unsigned i = 0; i < 2; ++i)
      std::memcpy(&b[i], &queries[lane / 4][4 * (lane % 4) + i * 16], 4);
    Sum sums[4] = {1, 2, 3, 4};
    multiply(kind, sums, a, b);
    for (unsigned i = 0; i < 4; ++i) {
      unsigned const row = lane / 4 + i / 2 * 8;
      unsigned const query = lane % 4 * 2 + i % 2;
      double wanted = i + 1;
      for (unsigned k = 0; k < n_values; ++k)
        wanted += value(rows[row], k) * value(queries[query], k);
      double const slack = std::is_integral_v<Sum> ? 0.0 : std::fabs(wanted) * 0x1p-23;
      CHECK(std::fabs(sums[i] - wanted) <= slack);
      // Cut, not rounded up.
      CHECK(std::fabs(static_cast<double>(sums[i])) <= std::fabs(wanted));
    }
  });
}

TEST(emulator_multiplies_as_the_isa_says) {
  Rng rng(1);
  for (int round = 0; round < 20; ++round) {
    unsigned char rows[16][32];
    unsigned char queries[8][32];
    auto const fill = [&](auto&& byte) {
      for (auto& row : rows) {
        for (unsigned i = 0; i < 32; ++i) row[i] = byte(i);
      }
      for (auto& query : queries) {
        for (unsigned i = 0; i < 32; ++i) query[i] = byte(i);
      }
    };
    fill([&](unsigned) { return static_cast<unsigned char>(rng.below(256u)); });
    check_product<Int8, std::int32_t>(
        Int8{}, [](unsigned char const* at, unsigned k) { return static_cast<std::int8_t>(at[k]); },
        32, rows, queries);
    // Positive, so that the sum is exact enough to compare: exponents of about 1, and subnormals.
    fill([&](unsigned i) {
      return static_cast<unsigned char>(i % 2 == 0       ? rng.below(256u)
                                        : round % 4 == 3 ? rng.below(4u)
                                                         : 0x38 + rng.below(6u));
    });
    check_product<Bfloat16, float>(
        Bfloat16{},
        [](unsigned char const* at, unsigned k) {
          std::uint32_t bits = 0;
          std::memcpy(reinterpret_cast<unsigned char*>(&bits) + 2, at + 2 * k, 2);
          float value;
          std::memcpy(&value, &bits, 4);
          return static_cast<double>(value);
        },
        16, rows, queries);
  }
}

// ---- the host's side

TEST(emulator_keeps_the_work_of_a_stream_until_somebody_waits) {
  cudaStream_t stream = nullptr;
  CHECK_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  int from = 1, to = 0;
  cudaMemcpyAsync(&to, &from, sizeof to, cudaMemcpyDefault, stream);
  CHECK_EQ(to, 0);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventRecord(event, stream);
  int other = 0;
  cudaMemcpyAsync(&other, &from, sizeof other, cudaMemcpyDefault, stream);
  cudaEventSynchronize(event);
  CHECK(to == 1 && other == 0);
  cudaStreamSynchronize(stream);
  CHECK_EQ(other, 1);
  // A recorded sequence reads what is there when it runs.
  CHECK_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaMemcpyAsync(&to, &from, sizeof to, cudaMemcpyDefault, stream);
  cudaGraph_t graph = nullptr;
  CHECK_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t made = nullptr;
  cudaGraphInstantiate(&made, graph);
  cudaGraphDestroy(graph);
  for (int value : {5, 6}) {
    from = value;
    cudaGraphLaunch(made, stream);
    CHECK(to != value);
    cudaStreamSynchronize(stream);
    CHECK_EQ(to, value);
  }
  cudaGraphExecDestroy(made);
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
}

TEST(emulator_counts_and_limits_device_memory) {
  std::size_t const before = emulator::allocated_bytes();
  void* data = nullptr;
  CHECK_EQ(cudaMalloc(&data, 100), cudaSuccess);
  CHECK_EQ(emulator::allocated_bytes(), before + 100);
  emulator::limit_memory(before + 150);
  void* other = nullptr;
  CHECK_EQ(cudaMalloc(&other, 51), cudaErrorMemoryAllocation);
  CHECK_EQ(cudaMalloc(&other, 50), cudaSuccess);
  emulator::limit_memory(0);
  CHECK_EQ(cudaFree(data), cudaSuccess);
  CHECK_EQ(cudaFree(other), cudaSuccess);
  CHECK_EQ(cudaFree(&data), cudaErrorInvalidValue);
  CHECK_EQ(emulator::allocated_bytes(), before);
}

}  // namespace
}  // namespace hyrecall::testing
