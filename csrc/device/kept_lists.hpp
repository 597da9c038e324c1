// The lists of an arm, which stay on a device from its search until hits are made of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hyrecall::device {

class KeptLists {
 public:
  // Room for `depth` entries a query. dim: of the queries that stay with them, 0: none. Throws
  // kDeviceMemory.
  KeptLists(std::string const& folder, int ordinal, std::uint32_t n_queries, std::uint32_t depth,
            std::uint32_t dim);
  ~KeptLists();
  KeptLists(KeptLists const&) = delete;
  KeptLists& operator=(KeptLists const&) = delete;

  std::uint32_t depth() const { return depth_; }
  void* handle() const { return handle_; }

  // [n_queries] entries found; a search writes those of its queries.
  std::vector<std::uint32_t> counts;

 private:
  std::string folder_;
  int ordinal_;
  std::uint32_t depth_;
  void* handle_ = nullptr;
};

}  // namespace hyrecall::device
