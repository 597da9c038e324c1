// What fibers wait for: words, barriers, collectives of a warp, copies, products.
#include <atomic>
#include <cstring>

#include "emulator/cta.hpp"

namespace emulator {
namespace {

void land(Copy const& copy) {
  std::memcpy(copy.to, copy.from, copy.bytes);
}

}  // namespace

void wait_while_equal(std::uint64_t const volatile* word, std::uint64_t value, char const* why) {
  Cta& c = cta();
  Fiber& self = *c.running;
  self.why = why;
  // At least one turn for the others, so that orders differ.
  while (*word == value) {
    Wait const wait{word, value};
    c.turns[self.index].wait = wait;
    Rest& rest = c.rests[self.warp];
    rest.n_waiting = rest.wait == wait ? rest.n_waiting + 1 : 1;
    rest.wait = wait;
    yield();
  }
}

void named_barrier(unsigned id, unsigned n_threads) {
  if (id >= kNamedBarriers) fault("a barrier number below 16");
  Barrier& barrier = cta().barriers[id];
  if (barrier.n_arrived == 0) barrier.n_expected = n_threads;
  if (barrier.n_expected != n_threads) fault("a barrier with two numbers of threads");
  if (++barrier.n_arrived == n_threads) {
    barrier.n_arrived = 0;
    barrier.generation += 1;
    return;
  }
  wait_while_equal(&barrier.generation, barrier.generation, "barrier");
}

void const* exchange(void const* value, std::size_t bytes) {
  if (bytes > kMostExchanged) fault("a value too large to exchange");
  Cta& c = cta();
  Fiber& self = *c.running;
  Warp& warp = c.warps[self.warp];
  // Two sets of slots: a lane may be one collective ahead of the slowest reader, never two.
  unsigned char* const slots = warp.values[self.collectives % 2];
  unsigned char* const own = slots + self.lane * bytes;
  if (bytes == 1) {
    std::memcpy(own, value, 1);
  } else if (bytes == 4) {
    std::memcpy(own, value, 4);
  } else {
    std::memcpy(own, value, bytes);
  }
  self.collectives += 1;
  if (++warp.n_arrived == kWarpSize) {
    warp.n_arrived = 0;
    warp.generation += 1;
  } else {
    wait_while_equal(&warp.generation, warp.generation, "warp collective");
  }
  return slots;
}

void touch_shared(void const* at, std::size_t bytes) {
  Cta& c = cta();
  auto const place = static_cast<std::size_t>(static_cast<unsigned char const*>(at) - c.shared);
  if (place % bytes != 0 || place + bytes > c.shared_bytes)
    fault("a word outside of shared memory, or one that is not aligned");
  if (c.touches.empty()) c.touches.resize((c.shared_bytes + 3) / 4, {kMaxThreads, 0});
  auto const self = static_cast<std::uint32_t>(c.running - c.fibers.data());
  std::uint64_t const now = c.barriers[0].generation;
  for (std::size_t word = place / 4; word < (place + bytes) / 4; ++word) {
    Touch& last = c.touches[word];
    if (last.thread != self && last.thread != kMaxThreads && last.generation == now)
      fault("two threads on one word between two barriers");
    last = {self, now};
  }
}

void queue_copy(void* to, void const* from, std::size_t bytes) {
  Copy const copy{to, from, bytes};
  Cta& c = cta();
  // An early one is kept as well: who does not wait for it is at fault.
  if (c.lands_early && (c.rng() & 1) != 0) land(copy);
  c.running->open.push_back(copy);
}

void commit_copies() {
  Fiber& self = *cta().running;
  self.groups.push_back(std::move(self.open));
  self.open.clear();
}

void wait_copies(unsigned n_left) {
  Fiber& self = *cta().running;
  while (self.groups.size() > n_left) {
    for (Copy const& copy : self.groups.front()) land(copy);
    self.groups.pop_front();
  }
}

void hide_barriers() {
  cta().has_hidden_barriers = true;
}

void publish_barriers() {
  cta().has_hidden_barriers = false;
}

namespace {
std::atomic<std::uint64_t> g_landed_bytes{0};
}

std::uint64_t landed_bytes() {
  return g_landed_bytes;
}
void land_later(std::size_t bytes, std::function<void()> copy) {
  g_landed_bytes += bytes;
  if (cta().has_hidden_barriers) fault("a copy that may not see its barrier");
  cta().landing.push_back(std::move(copy));
}

void begin_products() {
  cta().running->may_multiply = true;
}

void queue_product(std::function<void()> product) {
  if (!cta().running->may_multiply) fault("a product whose sums are not fenced");
  cta().running->open_products.push_back(std::move(product));
}

void commit_products() {
  Fiber& self = *cta().running;
  self.product_groups.push_back(std::move(self.open_products));
  self.open_products.clear();
  self.may_multiply = false;
}

void wait_products(unsigned n_left) {
  Fiber& self = *cta().running;
  while (self.product_groups.size() > n_left) {
    for (auto const& product : self.product_groups.front()) product();
    self.product_groups.pop_front();
  }
}

}  // namespace emulator
