// The checksums of a saved file's blocks (docs/format.md), compared when a block is first read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/buffer.hpp"

namespace hyrecall {

class BlockChecks {
 public:
  // sums: XXH3-64 of each block; done: blocks that were compared before. The others hold at least
  // kXxh3Least bytes. path, and where the content begins in that file: for messages.
  BlockChecks(std::string path, Buffer<std::uint8_t> content, std::vector<std::uint64_t> sums,
              std::size_t block_bytes, std::vector<std::size_t> const& done, std::size_t place = 0);

  // Compares the blocks of these bytes of the file, unless they were compared before; on any
  // thread. Throws in every call if a block is damaged.
  void ensure(void const* at, std::size_t n_bytes) const {
    if (n_bytes == 0 || n_left_.load(std::memory_order_acquire) == 0) return;
    ensure_range(static_cast<std::uint8_t const*>(at), n_bytes);
  }
  template <typename T>
  void ensure(Buffer<T> const& part, std::size_t begin, std::size_t end) const {
    ensure(part.data() + begin, (end - begin) * sizeof(T));
  }
  void ensure_all() const { ensure(content_.data(), content_.size()); }
  std::string const& path() const { return path_; }
  std::size_t n_left() const { return n_left_.load(std::memory_order_relaxed); }

 private:
  void ensure_range(std::uint8_t const* at, std::size_t n_bytes) const;
  void fetch(std::size_t block) const;
  void compare(std::size_t block) const;

  std::string path_;
  Buffer<std::uint8_t> content_;
  std::vector<std::uint64_t> sums_;
  std::size_t block_bytes_;
  std::size_t place_;
  std::unique_ptr<std::atomic<bool>[]> is_done_;
  mutable std::atomic<std::size_t> n_left_;
};

// Bytes of a file that are compared before they are first read.
struct LateBytes {
  std::shared_ptr<BlockChecks const> checks;
  void const* at;
  std::size_t n_bytes;

  void ensure() const { checks->ensure(at, n_bytes); }
};

}  // namespace hyrecall
