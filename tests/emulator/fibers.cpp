#include "emulator/fibers.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

#include "emulator/cta.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define EMULATOR_ASAN 1
#else
#define EMULATOR_ASAN 0
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
namespace {

// Plain and at a fixed place: every lane asks for it all the time.
[[gnu::tls_model("initial-exec")]] constinit thread_local Cta* t_cta = nullptr;

Cta& make_cta() {
  thread_local std::unique_ptr<Cta> owner;
  owner = std::make_unique<Cta>();
  t_cta = owner.get();
  return *owner;
}

}  // namespace

Cta& cta() {
  return t_cta != nullptr ? *t_cta : make_cta();
}

namespace {

// Threads of a CTA are one thread to ThreadSanitizer. Its record of who calls whom stays whole as
// long as the two functions that are left for good are not in it.
[[gnu::no_sanitize("thread")]] void to_scheduler(bool is_last) {
  Cta& c = cta();
  Fiber& self = *c.running;
#if EMULATOR_ASAN
  __sanitizer_start_switch_fiber(is_last ? nullptr : &self.asan_frame, c.scheduler_stack,
                                 c.scheduler_stack_bytes);
#endif
  (void)is_last;
  emulator_switch(&self.sp, c.scheduler_sp);
#if EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(self.asan_frame, nullptr, nullptr);
#endif
}

[[gnu::no_sanitize("thread")]] void enter() {
  Cta& c = cta();
#if EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &c.scheduler_stack, &c.scheduler_stack_bytes);
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
  self.is_done = true;
  to_scheduler(true);
  std::abort();
}

void resume(Fiber& fiber) {
  Cta& c = cta();
  c.running = &fiber;
#if EMULATOR_ASAN
  __sanitizer_start_switch_fiber(&c.scheduler_asan_frame, fiber.stack, kStackBytes);
#endif
  emulator_switch(&c.scheduler_sp, fiber.sp);
#if EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(c.scheduler_asan_frame, nullptr, nullptr);
#endif
  c.running = nullptr;
}

void prepare(Fiber& fiber) {
  if (fiber.stack == nullptr) {
    fiber.stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fiber.stack == MAP_FAILED) fault("no memory for a fiber's stack");
  }
  // As emulator_switch leaves it: six registers, then the address to return to; the stack is
  // 16-byte aligned plus 8 when a function begins.
  auto** top = reinterpret_cast<void**>(static_cast<char*>(fiber.stack) + kStackBytes) - 3;
  *--top = reinterpret_cast<void*>(&enter);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber.sp = top;
  fiber.is_done = false;
  fiber.wait_word = nullptr;
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
void run_cta(Index3 block_dim) {
  Cta& c = cta();
  std::mt19937_64& rng = c.rng;
  unsigned const n = block_dim.x * block_dim.y * block_dim.z;
  std::vector<unsigned> order(n);
  std::iota(order.begin(), order.end(), 0u);
  unsigned const n_warps = (n + kWarpSize - 1) / kWarpSize;
  unsigned late = n_warps;  // the warp that stands still, or none
  unsigned n_done = 0;
  while (n_done < n) {
    if (c.is_shuffled) {
      // Warps in a new order, and every other one backwards: cheaper than a full shuffle.
      unsigned const turn = static_cast<unsigned>(rng() % n);
      std::rotate(order.begin(), order.begin() + turn, order.end());
      if ((rng() & 1) != 0) std::reverse(order.begin(), order.end());
      if ((rng() & 7) == 0) late = static_cast<unsigned>(rng() % (2 * n_warps));
    }
    bool progressed = false;
    for (unsigned i : order) {
      Fiber& fiber = c.fibers[i];
      if (fiber.is_done || i / kWarpSize == late) continue;
      if (fiber.wait_word != nullptr && *fiber.wait_word == fiber.wait_value) continue;
      fiber.wait_word = nullptr;
      resume(fiber);
      progressed = true;
      if (fiber.is_done) n_done += 1;
    }
    if (!c.landing.empty() && (!progressed || (rng() & 3) == 0)) {
      auto const one = c.landing.begin() + static_cast<std::ptrdiff_t>(rng() % c.landing.size());
      std::function<void()> const copy = std::move(*one);
      c.landing.erase(one);
      copy();
      continue;
    }
    if (!progressed && late >= n_warps) fault("deadlock: every thread waits");
    if (!progressed) late = n_warps;
  }
}

}  // namespace

void yield() {
  to_scheduler(false);
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
  for (Fiber const& fiber : c.fibers) {
    if (fiber.is_done || shown++ >= 40) continue;
    std::fprintf(stderr, "  block %u,%u thread %u: %s\n", fiber.place.block.x, fiber.place.block.y,
                 fiber.place.thread.x, fiber.wait_word != nullptr ? fiber.why : "runs");
  }
  std::abort();
}

Place const& here() {
  Cta& c = cta();
  if (c.running == nullptr) fault("device code runs outside a kernel");
  return c.running->place;
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
  for (std::size_t i = n; i < c.fibers.size(); ++i) c.fibers[i].is_done = true;
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
    c.has_hidden_barriers = false;
    for (unsigned i = 0; i < n; ++i) {
      Fiber& fiber = c.fibers[i];
      prepare(fiber);
      fiber.warp = i / kWarpSize;
      fiber.lane = i % kWarpSize;
      fiber.place.thread = {i % block.x, i / block.x % block.y, i / block.x / block.y};
      fiber.place.block = {static_cast<unsigned>(b % grid.x),
                           static_cast<unsigned>(b / grid.x % grid.y),
                           static_cast<unsigned>(b / grid.x / grid.y)};
      fiber.place.block_dim = block;
      fiber.place.grid_dim = grid;
    }
    run_cta(block);
    if (!c.landing.empty()) fault("a CTA ended before its block copies had landed");
    for (Warp const& warp : c.warps) {
      if (warp.n_arrived != 0) fault("a collective that not all lanes came to");
    }
  }
  std::free(shared);
  c.shared = nullptr;
}

}  // namespace emulator
