// What a CTA is made of while it runs; fibers.cpp switches between its threads, waiting.cpp has
// what they wait for.
#pragma once

#include <sys/mman.h>

#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "emulator/fibers.hpp"

namespace emulator {

constexpr std::size_t kStackBytes = 96 * 1024;
constexpr unsigned kNamedBarriers = 16;

struct Copy {
  void* to;
  void const* from;
  std::size_t bytes;
};

struct Fiber {
  void* stack = nullptr;
  void* sp = nullptr;
  void* asan_frame = nullptr;
  char const* why = "";
  Place place;
  unsigned index = 0;
  unsigned warp = 0;
  unsigned lane = 0;
  std::uint64_t collectives = 0;
  std::deque<std::vector<Copy>> groups;  // committed
  std::vector<Copy> open;
  std::deque<std::vector<std::function<void()>>> product_groups;  // committed
  std::vector<std::function<void()>> open_products;
  bool may_multiply = false;  // since a fence for its sums
};

// What a fiber waits for: *word != value. No word, nothing.
struct Wait {
  std::uint64_t const volatile* word = nullptr;
  std::uint64_t value = 0;
  bool is_open() const { return word != nullptr && *word == value; }
  bool operator==(Wait const&) const = default;
};

// Beside one another, since each round looks at all of them.
struct Turn {
  Wait wait;
  bool is_done = true;
};

struct Warp {
  alignas(16) unsigned char values[2][kWarpSize * kMostExchanged];
  unsigned n_arrived = 0;
  std::uint64_t generation = 0;
};

// Lanes that need not be looked at one by one.
struct Rest {
  unsigned n_done = 0;
  unsigned n_waiting = 0;  // at least so many lanes wait for the same
  Wait wait;
};

// The order of a round is the threads' own, from any of them on, forwards or backwards.
struct Round {
  unsigned n = 0;  // threads
  unsigned first = 0;
  bool is_backwards = false;
  unsigned at = 0;    // how many have been looked at
  unsigned late = 0;  // the warp that stands still, or none
  bool has_progressed = false;
};

struct Barrier {
  unsigned n_arrived = 0;
  unsigned n_expected = 0;
  std::uint64_t generation = 0;
};

// Who touched a word last, and in which generation of barrier 0.
struct Touch {
  std::uint32_t thread;
  std::uint64_t generation;
};

struct Cta {
  Cta() = default;
  Cta(Cta const&) = delete;
  Cta& operator=(Cta const&) = delete;
  ~Cta() {
    for (Fiber const& fiber : fibers) {
      if (fiber.stack != nullptr) munmap(fiber.stack, kStackBytes);
    }
  }

  std::vector<Fiber> fibers;
  std::vector<Turn> turns;  // of each fiber
  std::vector<Warp> warps;
  std::vector<Rest> rests;  // of each warp
  Round round;
  unsigned n_done = 0;
  Barrier barriers[kNamedBarriers];
  unsigned char* shared = nullptr;
  std::size_t shared_bytes = 0;
  std::vector<Touch> touches;  // a word of shared memory each; empty until one is touched
  std::function<void()> const* body = nullptr;
  std::vector<std::function<void()>> landing;  // block copies under way
  Fiber* running = nullptr;
  bool has_hidden_barriers = false;  // from copies: not published since they were made
  std::mt19937_64 rng;
  bool is_shuffled = false;
  bool lands_early = false;
  void* scheduler_sp = nullptr;
  void* scheduler_asan_frame = nullptr;
  void const* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
};

// Of the host thread that runs. Plain and at a fixed place: every lane asks for it all the time.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local Cta* t_cta;
Cta& make_cta();
inline Cta& cta() {
  return t_cta != nullptr ? *t_cta : make_cta();
}

// The running fiber lets others run.
void yield();

}  // namespace emulator
