#include "core/zeroed.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace hyrecall {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

std::shared_ptr<void> allocate_zeroed(std::size_t n_bytes) {
  if (n_bytes < kHugePage) {
    std::size_t const rounded = (n_bytes + kLine) / kLine * kLine;  // never 0
    void* const memory = std::aligned_alloc(kLine, rounded);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, rounded);
    return {memory, [](void* held) { std::free(held); }};
  }
  // Pages before the first boundary are only address space: none is ever touched.
  std::size_t const mapped = n_bytes + kHugePage;
  void* const start =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  auto const address = reinterpret_cast<std::uintptr_t>(start);
  void* const first = reinterpret_cast<void*>((address + kHugePage - 1) / kHugePage * kHugePage);
#if defined(MADV_HUGEPAGE)
  madvise(first, n_bytes, MADV_HUGEPAGE);  // may fail: then plain pages
#endif
  return {first, [start, mapped](void*) { munmap(start, mapped); }};
}

}  // namespace hyrecall
