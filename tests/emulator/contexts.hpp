// Devices of the stand-in, and which of them have a context.
#pragma once

namespace emulator {

// What the runtime does that needs a context makes one on the current device.
void make_context();
bool has_context(int device);

}  // namespace emulator
