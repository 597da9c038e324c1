// How much room a batch's candidates have on a device, and which tiles are looked at first.
#pragma once

#include <cstddef>

#include "kernels/settings.hpp"

namespace hyrecall {

// most_tiles: of a query.
DenseTuning choose_tuning(std::size_t depth, std::size_t most_tiles);
// Of a lexical scan, of whose document tiles each has at most kMostOfDocTile x depth candidates of
// a query, equal scores apart. Few queries have room for many candidates each.
DenseTuning choose_lexical_tuning(std::size_t n_queries, std::size_t depth, std::size_t most_tiles);

}  // namespace hyrecall
