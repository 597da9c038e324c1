#include "native/heap.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_IS_COUNTED 0
#else
#define HEAP_IS_COUNTED 1
#endif

namespace hyrecall::testing {
namespace {

constinit thread_local HeapUse t_use{0, 0};

}  // namespace

bool heap_is_counted() {
  return HEAP_IS_COUNTED != 0;
}

HeapUse heap_use() {
  return t_use;
}

#if HEAP_IS_COUNTED
static void* take(std::size_t bytes, std::size_t alignment) {
  t_use.n_allocations += 1;
  t_use.bytes += bytes;
  void* found = nullptr;
  if (posix_memalign(&found, alignment, bytes > 0 ? bytes : 1) != 0) throw std::bad_alloc();
  return found;
}
#endif

}  // namespace hyrecall::testing

#if HEAP_IS_COUNTED
void* operator new(std::size_t bytes) {
  return hyrecall::testing::take(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return hyrecall::testing::take(bytes, static_cast<std::size_t>(alignment));
}
// Inlined, their free() would be taken for one that does not belong to operator new.
[[gnu::noinline]] void operator delete(void* data) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::align_val_t) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t, std::align_val_t) noexcept {
  std::free(data);
}
#endif
