#include "emulator/fibers.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

#include "emulator/cta.hpp"

#if !defined(EMULATOR_ASAN)  // AddressSanitizer looks at all but this file
#define EMULATOR_ASAN 0
#endif
#if EMULATOR_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

// void emulator_switch(void** save, void* load): callee-saved registers of the System V ABI.
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch, .-emulator_switch
)");
extern "C" void emulator_switch(void** save, void* load);

namespace emulator {

constinit thread_local Cta* t_cta = nullptr;
constinit thread_local Place const* t_here = nullptr;

Cta& make_cta() {
  thread_local std::unique_ptr<Cta> owner;
  owner = std::make_unique<Cta>();
  t_cta = owner.get();
  return *owner;
}

namespace {

// The next fiber of this round that may go on, or null at its end.
Fiber* next_of_round(Cta& c) {
  Round& round = c.round;
  while (round.at < round.n) {
    unsigned i = round.is_backwards ? round.first + round.n - round.at : round.first + round.at;
    if (i >= round.n) i -= round.n;
    unsigned const w = i / kWarpSize;
    Rest& rest = c.rests[w];
    if (w == round.late || rest.n_done == kWarpSize ||
        (rest.n_waiting == kWarpSize && rest.wait.is_open())) {
      round.at += round.is_backwards ? i % kWarpSize + 1 : kWarpSize - i % kWarpSize;
      continue;
    }
    round.at += 1;
    Turn& turn = c.turns[i];
    if (turn.is_done || turn.wait.is_open()) continue;
    if (rest.wait == turn.wait) rest.n_waiting = 0;
    turn.wait = {};
    round.has_progressed = true;
    return &c.fibers[i];
  }
  return nullptr;
}

void set_running(Cta& c, Fiber* fiber) {
  c.running = fiber;
  t_here = fiber != nullptr ? &fiber->place : nullptr;
}

// Goes on with the next fiber, or with run_cta() at the end of a round. Threads of a CTA are one
// thread to ThreadSanitizer. Its record of who calls whom stays whole as long as the two functions
// that are left for good are not in it.
[[gnu::no_sanitize("thread")]] void to_next(bool is_last) {
  Cta& c = cta();
  Fiber& self = *c.running;
  Fiber* const next = next_of_round(c);
  set_running(c, next);
#if EMULATOR_ASAN
  __sanitizer_start_switch_fiber(is_last ? nullptr : &self.asan_frame,
                                 next != nullptr ? next->stack : c.scheduler_stack,
                                 next != nullptr ? kStackBytes : c.scheduler_stack_bytes);
#endif
  (void)is_last;
  emulator_switch(&self.sp, next != nullptr ? next->sp : c.scheduler_sp);
#if EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(self.asan_frame, nullptr, nullptr);
#endif
}

[[gnu::no_sanitize("thread")]] void enter() {
  Cta& c = cta();
#if EMULATOR_ASAN
  // The first comes from run_cta(), whose stack nobody else knows.
  void const* from = nullptr;
  std::size_t from_bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &from, &from_bytes);
  if (c.scheduler_stack == nullptr) {
    c.scheduler_stack = from;
    c.scheduler_stack_bytes = from_bytes;
  }
#endif
  try {
    (*c.body)();
  } catch (std::exception const& error) {  // a test's check: it has no stack to go up
    fault(error.what());
  }
  Fiber& self = *c.running;
  // On a device they may land after the CTA has gone.
  bool has_copies = !self.open.empty();
  for (std::vector<Copy> const& group : self.groups) has_copies |= !group.empty();
  if (has_copies) fault("a thread left with cp.async copies that it did not wait for");
  self.groups.clear();
  if (!self.open_products.empty() || !self.product_groups.empty())
    fault("a thread left with products that it did not wait for");
  c.turns[self.index].is_done = true;
  c.rests[self.warp].n_done += 1;
  c.n_done += 1;
  to_next(true);
  std::abort();
}

void resume(Cta& c, Fiber& fiber) {
  set_running(c, &fiber);
#if EMULATOR_ASAN
  __sanitizer_start_switch_fiber(&c.scheduler_asan_frame, fiber.stack, kStackBytes);
#endif
  emulator_switch(&c.scheduler_sp, fiber.sp);
#if EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(c.scheduler_asan_frame, nullptr, nullptr);
#endif
}

// Stacks begin at other places of their pages each, or their tops would share a few lines of cache.
std::size_t beginning_of(unsigned i) {
  return i * 320 % 4096;
}

void prepare(Fiber& fiber, unsigned i) {
  if (fiber.stack == nullptr) {
    fiber.stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fiber.stack == MAP_FAILED) fault("no memory for a fiber's stack");
  }
  // As emulator_switch leaves it: six registers, then the address to return to; the stack is
  // 16-byte aligned plus 8 when a function begins.
  auto** top =
      reinterpret_cast<void**>(static_cast<char*>(fiber.stack) + kStackBytes - beginning_of(i)) - 3;
  *--top = reinterpret_cast<void*>(&enter);
  for (int k = 0; k < 6; ++k) *--top = nullptr;
  fiber.sp = top;
  fiber.index = i;
  fiber.collectives = 0;
}

std::atomic<std::uint64_t>& seed() {
  static std::atomic<std::uint64_t> value{[]() -> std::uint64_t {
    char const* const text = std::getenv("HYRECALL_EMULATOR_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
  }()};
  return value;
}
std::atomic<std::uint64_t> g_launches{0};
std::atomic<NullDevice> g_null{NullDevice::kNone};

// Another seed than 0 shuffles the threads anew between waits, and now and then lets a warp stand
// still for some rounds, so that a missing barrier shows.
void run_cta(unsigned n) {
  Cta& c = cta();
  std::mt19937_64& rng = c.rng;
  unsigned const n_warps = n / kWarpSize;
  Round& round = c.round;
  round = {.n = n, .late = n_warps};
  while (c.n_done < n) {
    if (c.is_shuffled) {
      // Warps in a new order, and every other one backwards: cheaper than a full shuffle.
      unsigned const turn = static_cast<unsigned>(rng() % n);
      round.first = (round.first + (round.is_backwards ? n - turn : turn)) % n;
      if ((rng() & 1) != 0) {
        round.first = (round.first + (round.is_backwards ? 1 : n - 1)) % n;
        round.is_backwards = !round.is_backwards;
      }
      if ((rng() & 7) == 0) round.late = static_cast<unsigned>(rng() % (2 * n_warps));
    }
    round.at = 0;
    round.has_progressed = false;
    if (Fiber* const first = next_of_round(c); first != nullptr) resume(c, *first);
    if (!c.landing.empty() && (!round.has_progressed || (rng() & 3) == 0)) {
      auto const one = c.landing.begin() + static_cast<std::ptrdiff_t>(rng() % c.landing.size());
      std::function<void()> const copy = std::move(*one);
      c.landing.erase(one);
      copy();
      continue;
    }
    if (!round.has_progressed && round.late >= n_warps) fault("deadlock: every thread waits");
    if (!round.has_progressed) round.late = n_warps;
  }
}

}  // namespace

void yield() {
  to_next(false);
}

void set_seed(std::uint64_t value) {
  seed() = value;
}
bool is_eager() {
  static std::atomic<std::uint64_t> n_asked{0};
  std::uint64_t const own = seed();
  if (own <= 1) return false;
  return std::mt19937_64(own * 1000 + ++n_asked)() % 4 == 0;
}
std::uint64_t n_launches() {
  return g_launches;
}
void set_null(NullDevice kind) {
  g_null = kind;
}
NullDevice null_device() {
  return g_null;
}

void fault(char const* what) {
  Cta& c = cta();
  std::fprintf(stderr, "emulator: %s\n", what);
  unsigned shown = 0;
  for (std::size_t i = 0; i < c.turns.size(); ++i) {
    if (c.turns[i].is_done || shown++ >= 40) continue;
    Fiber const& fiber = c.fibers[i];
    std::fprintf(stderr, "  block %u,%u thread %u: %s\n", fiber.place.block.x, fiber.place.block.y,
                 fiber.place.thread.x, c.turns[i].wait.word != nullptr ? fiber.why : "runs");
  }
  std::abort();
}

unsigned char* dynamic_shared() {
  return cta().shared;
}
std::size_t dynamic_shared_bytes() {
  return cta().shared_bytes;
}

void run_grid(Index3 grid, Index3 block, std::size_t shared_bytes,
              std::function<void()> const& body) {
  unsigned const n = block.x * block.y * block.z;
  if (n == 0 || n > kMaxThreads || n % kWarpSize != 0) fault("a CTA of 32 to 1024 threads, warps");
  if (shared_bytes > kMaxDynamicShared) fault("more shared memory than there is");
  g_launches += 1;
  if (null_device() != NullDevice::kNone) return;
  Cta& c = cta();
  if (c.running != nullptr) fault("a kernel starts a kernel");
  if (c.fibers.size() < n) c.fibers.resize(n);
  c.warps.resize(n / kWarpSize);
  c.body = &body;
  // Exactly as many bytes as asked for, so that a sanitizer guards the next; 1,024-byte aligned as
  // the swizzled copies want it.
  void* room = nullptr;
  if (posix_memalign(&room, 1024, std::max<std::size_t>(shared_bytes, 1)) != 0)
    fault("no memory for a CTA's shared memory");
  auto* const shared = static_cast<unsigned char*>(room);
  c.shared = shared;
  c.shared_bytes = shared_bytes;
  std::uint64_t const own_seed = seed();
  std::mt19937_64& rng = c.rng;
  rng.seed(own_seed);
  c.is_shuffled = own_seed != 0;
  c.lands_early = own_seed > 1;
  std::vector<std::uint64_t> blocks(std::size_t{grid.x} * grid.y * grid.z);
  std::iota(blocks.begin(), blocks.end(), std::uint64_t{0});
  if (c.is_shuffled) std::shuffle(blocks.begin(), blocks.end(), rng);
  for (std::uint64_t const b : blocks) {
    std::memset(shared, 0xCD, shared_bytes);
    for (Barrier& barrier : c.barriers) barrier = {};
    c.touches.clear();
    for (Warp& warp : c.warps) warp.n_arrived = 0;
    c.turns.assign(c.fibers.size(), {});
    c.rests.assign(n / kWarpSize, {});
    c.n_done = 0;
    c.has_hidden_barriers = false;
    for (unsigned i = 0; i < n; ++i) {
      Fiber& fiber = c.fibers[i];
      prepare(fiber, i);
      c.turns[i].is_done = false;
      fiber.warp = i / kWarpSize;
      fiber.lane = i % kWarpSize;
      fiber.place.thread = {i % block.x, i / block.x % block.y, i / block.x / block.y};
      fiber.place.block = {static_cast<unsigned>(b % grid.x),
                           static_cast<unsigned>(b / grid.x % grid.y),
                           static_cast<unsigned>(b / grid.x / grid.y)};
      fiber.place.block_dim = block;
      fiber.place.grid_dim = grid;
    }
    run_cta(n);
    if (!c.landing.empty()) fault("a CTA ended before its block copies had landed");
    for (Warp const& warp : c.warps) {
      if (warp.n_arrived != 0) fault("a collective that not all lanes came to");
    }
  }
  std::free(shared);
  c.shared = nullptr;
}

}  // namespace emulator
