#include "core/pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace hyrecall {
namespace {

std::uintptr_t page_bytes() {
  static auto const kBytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return kBytes;
}

// From the first page that holds one of the bytes to the end of the last.
void advise(void const* at, std::size_t n_bytes, int advice) {
  if (n_bytes == 0) return;
  std::uintptr_t const page = page_bytes();
  auto const address = reinterpret_cast<std::uintptr_t>(at);
  std::uintptr_t const begin = address / page * page;
  madvise(reinterpret_cast<void*>(begin), address + n_bytes - begin, advice);
}

bool is_resident(std::uintptr_t address) {
  std::uintptr_t const page = page_bytes();
#if defined(__APPLE__)
  char found = 0;
#else
  unsigned char found = 0;
#endif
  void* const begin = reinterpret_cast<void*>(address / page * page);
  return mincore(begin, page, &found) == 0 && (found & 1) != 0;
}

}  // namespace

void read_apart(void const* at, std::size_t n_bytes) {
  advise(at, n_bytes, MADV_RANDOM);
}

void read_in_order(void const* at, std::size_t n_bytes) {
  advise(at, n_bytes, MADV_NORMAL);
}

void read_ahead(void const* at, std::size_t n_bytes) {
  advise(at, n_bytes, MADV_WILLNEED);
}

void read_ahead_if_absent(void const* at, std::size_t n_bytes) {
  if (n_bytes == 0) return;
  auto const first = reinterpret_cast<std::uintptr_t>(at);
  if (!is_resident(first) || !is_resident(first + n_bytes - 1)) read_ahead(at, n_bytes);
}

}  // namespace hyrecall
