// A segment's columns as a device takes them.
#pragma once

#include <vector>

#include "device/device_segment.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {

// By lexical arm; they point into the segment.
std::vector<LexicalArrays> lexical_arrays(Segment const& segment);

}  // namespace hyrecall
