// What the system is told about pages of mapped files before they are read. Advice for other memory
// does no harm.
#pragma once

#include <cstddef>

namespace hyrecall {

// Rows far apart will be read: a fault brings no pages around it.
void read_apart(void const* at, std::size_t n_bytes);
// All will be read, one page after the other.
void read_in_order(void const* at, std::size_t n_bytes);
// The system begins to read them, in large steps, and comes back at once.
void read_ahead(void const* at, std::size_t n_bytes);
// The same unless they seem to be in memory: looks at the first and the last page.
void read_ahead_if_absent(void const* at, std::size_t n_bytes);

}  // namespace hyrecall
