#include "core/pooled.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>

#include "core/fork_mutex.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kLeast = std::size_t{1} << 16;  // what malloc does not give back by itself
constexpr std::size_t kMost = std::size_t{1} << 24;
constexpr std::size_t kMostIdle = std::size_t{1} << 25;  // bytes that wait for their next use

// Sanitizers would not see who uses memory that it has given back.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsUsed = false;
#else
constexpr bool kIsUsed = true;
#endif

bool is_pooled(std::size_t bytes) {
  return kIsUsed && bytes >= kLeast && bytes <= kMost;
}

// Four sizes an octave, so that a batch that is a little larger finds a block too.
std::size_t room_of(std::size_t bytes) {
  std::size_t step = kLeast / 4;
  while (step * 8 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

class IdleBlocks {
 public:
  static IdleBlocks& all() {
    static auto* const blocks = new IdleBlocks;  // never destroyed: arrays may outlive it
    return *blocks;
  }

  void* take(std::size_t room) {
    std::lock_guard const lock(fork_mutex<IdleBlocks>());
    auto const found = std::find_if(blocks_.rbegin(), blocks_.rend(),
                                    [&](Block const& one) { return one.room == room; });
    if (found == blocks_.rend()) return nullptr;
    void* const data = found->data;
    idle_ -= room;
    blocks_.erase(std::next(found).base());
    return data;
  }

  // Those that have waited longest go.
  void give(void* data, std::size_t room) {
    std::lock_guard const lock(fork_mutex<IdleBlocks>());
    blocks_.push_back({data, room});
    idle_ += room;
    std::size_t n_old = 0;
    for (; idle_ > kMostIdle; ++n_old) {
      idle_ -= blocks_[n_old].room;
      ::operator delete(blocks_[n_old].data);
    }
    blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(n_old));
  }

 private:
  struct Block {
    void* data;
    std::size_t room;
  };

  IdleBlocks() { blocks_.reserve(kMostIdle / kLeast + 1); }

  std::vector<Block> blocks_;  // the last was given back last
  std::size_t idle_ = 0;
};

}  // namespace

void* take_pooled(std::size_t bytes) {
  if (!is_pooled(bytes)) return ::operator new(bytes);
  std::size_t const room = room_of(bytes);
  void* const found = IdleBlocks::all().take(room);
  return found != nullptr ? found : ::operator new(room);
}

void give_pooled(void* data, std::size_t bytes) noexcept {
  if (!is_pooled(bytes)) {
    ::operator delete(data);
  } else {
    IdleBlocks::all().give(data, room_of(bytes));
  }
}

}  // namespace hyrecall
