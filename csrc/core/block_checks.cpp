#include "core/block_checks.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "core/error.hpp"
#include "core/pages.hpp"
#include "core/xxh3.hpp"

namespace hyrecall {
namespace {

std::string hex(std::uint64_t sum) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, sum);
  return text;
}

}  // namespace

BlockChecks::BlockChecks(std::string path, Buffer<std::uint8_t> content,
                         std::vector<std::uint64_t> sums, std::size_t block_bytes,
                         std::vector<std::size_t> const& done, std::size_t place)
    : path_(std::move(path)),
      content_(std::move(content)),
      sums_(std::move(sums)),
      block_bytes_(block_bytes),
      place_(place),
      is_done_(new std::atomic<bool>[sums_.size()]()),
      n_left_(sums_.size()) {
  require(block_bytes_ > 0 && sums_.size() == (content_.size() + block_bytes_ - 1) / block_bytes_,
          "a checksum of each block");
  for (std::size_t const block : done) {
    require(block < sums_.size() && !is_done_[block].exchange(true), "blocks, each once");
    --n_left_;
  }
}

void BlockChecks::ensure_range(std::uint8_t const* at, std::size_t n_bytes) const {
  std::size_t const begin =
      reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(content_.data());
  require(begin < content_.size() && n_bytes <= content_.size() - begin, "bytes of the file");
  std::size_t const last = (begin + n_bytes - 1) / block_bytes_;
  for (std::size_t block = begin / block_bytes_; block <= last; ++block) {
    if (is_done_[block].load(std::memory_order_acquire)) continue;
    fetch(block);
    if (block < last) fetch(block + 1);  // while this one is compared
    compare(block);
  }
}

// A page fault may bring a single page (core/pages.hpp).
void BlockChecks::fetch(std::size_t block) const {
  std::size_t const begin = block * block_bytes_;
  read_ahead_if_absent(content_.data() + begin, std::min(block_bytes_, content_.size() - begin));
}

void BlockChecks::compare(std::size_t block) const {
  std::size_t const begin = block * block_bytes_;
  std::size_t const size = std::min(block_bytes_, content_.size() - begin);
  std::uint64_t const found = xxh3_64(content_.data() + begin, size);
  if (found != sums_[block]) {
    throw Error(ErrorCode::kCorrupt, path_,
                "expected checksum " + hex(sums_[block]) + " of the block at byte " +
                    std::to_string(place_ + begin) + ", got " + hex(found));
  }
  if (!is_done_[block].exchange(true, std::memory_order_acq_rel))  // two threads may compare it
    n_left_.fetch_sub(1, std::memory_order_acq_rel);
}

}  // namespace hyrecall
