// A document's place in an index.
#pragma once

#include <compare>
#include <cstdint>

#include "core/types.hpp"

namespace hyrecall {

struct DocRef {
  std::uint32_t segment;  // of the snapshot
  Row row;                // in it

  friend auto operator<=>(DocRef const&, DocRef const&) = default;
};

}  // namespace hyrecall
