#include "device/kept_lists.hpp"

#include "device/device_library.hpp"

namespace hyrecall::device {

KeptLists::KeptLists(std::string const& folder, int ordinal, std::uint32_t n_queries,
                     std::uint32_t depth, std::uint32_t dim)
    : counts(n_queries, 0), folder_(folder), ordinal_(ordinal), depth_(depth) {
  cuda::ListsParams const params{ordinal, n_queries, depth, dim};
  check(require_library(folder, ordinal).create_lists(&params, &handle_), ordinal);
}

KeptLists::~KeptLists() {
  require_library(folder_, ordinal_).destroy_lists(handle_);
}

}  // namespace hyrecall::device
