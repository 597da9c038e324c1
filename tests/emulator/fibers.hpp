// Threads of one CTA as fibers of one host thread: they run one at a time, and change only where
// CUDA threads wait for one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "emulator/controls.hpp"

namespace emulator {

struct Index3 {
  unsigned x = 1, y = 1, z = 1;
};

inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kMaxThreads = 1024;
inline constexpr std::size_t kMaxDynamicShared = 227 * 1024;  // sm_90's most

// Where the running fiber stands.
struct Place {
  Index3 thread, block, block_dim, grid_dim;
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local Place const* t_here;
[[noreturn]] void fault(char const* what);
inline Place const& here() {
  if (t_here == nullptr) fault("device code runs outside a kernel");
  return *t_here;
}

// The CTA's dynamic shared memory: as large as the launch said, filled with a pattern before each
// CTA.
unsigned char* dynamic_shared();
std::size_t dynamic_shared_bytes();

// The order in which threads run: HYRECALL_EMULATOR_SEED (1), or what was set last. 0 is CUDA's
// likely order. Up to 1 asynchronous copies land as late as they may, else as late or as early, by
// chance.
void set_seed(std::uint64_t seed);
// Whether a stream does at once what has come to it, by chance; up to seed 1 it never does.
bool is_eager();
std::uint64_t n_launches();
void set_null(NullDevice kind);
NullDevice null_device();
inline bool is_same() {
  return null_device() == NullDevice::kSame;
}

// Runs the body as every thread of every CTA, in an order that changes with the seed.
// A fault (a deadlock, a lane that left a collective) prints what waited and aborts.
void run_grid(Index3 grid, Index3 block, std::size_t shared_bytes,
              std::function<void()> const& body);

// The running fiber waits until *word != value.
void wait_while_equal(std::uint64_t const volatile* word, std::uint64_t value, char const* why);

// bar.sync id, n_threads.
void named_barrier(unsigned id, unsigned n_threads);

// All 32 lanes of the warp come here with a value each; gives the warp's values, valid until the
// lane's next collective.
void const* exchange(void const* value, std::size_t bytes);
inline constexpr std::size_t kMostExchanged = 1024;

// The running thread reads or writes words of shared memory that no other may touch before the
// CTA's next barrier; one that another has touched since the last is a fault. 16 bytes are aligned.
void touch_shared(void const* at, std::size_t bytes);

// cp.async: copies that take place when the thread waits for their group, or (see set_seed) before.
void queue_copy(void* to, void const* from, std::size_t bytes);
void commit_copies();
void wait_copies(unsigned n_left);

// cp.async.bulk: happens at some time that no thread chooses. Barriers that were hidden and not
// published since are a fault.
void hide_barriers();
void publish_barriers();
void land_later(std::size_t bytes, std::function<void()> copy);
// Bytes that have landed so, on all devices.
std::uint64_t landed_bytes();

// wgmma: products that are made when the thread waits for their group. One that no fence came
// before, since the last group or the beginning, is a fault.
void begin_products();
void queue_product(std::function<void()> product);
void commit_products();
void wait_products(unsigned n_left);

}  // namespace emulator
