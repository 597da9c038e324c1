// Dedup and MMR on the device of a snapshot, with the bits of the CPU.
#pragma once

#include <optional>

#include "engine/shaping/shaping.hpp"

namespace hyrecall {

// Nothing: the lists are left to the CPU. They are where there is no device, where a list is longer
// or a batch has more entries than a device takes, and where its memory is short.
std::optional<Deduped> dedup_on_device(Snapshot const& snapshot, FusedListsView const& lists,
                                       DedupParams const& params);
std::optional<Diversified> diversify_on_device(Snapshot const& snapshot,
                                               FusedListsView const& lists,
                                               DiversifyParams const& params);

}  // namespace hyrecall
