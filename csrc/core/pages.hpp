// Advises the system about pages of mapped files before they are read. Advice about other memory
// does no harm.
#pragma once

#include <cstddef>

namespace hyrecall {

// Rows far apart will be read, so a page fault should load no neighbouring pages.
void read_apart(void const* at, std::size_t n_bytes);
// All pages will be read in order.
void read_in_order(void const* at, std::size_t n_bytes);
// The system starts to load the pages, in large steps; returns at once.
void read_ahead(void const* at, std::size_t n_bytes);
// The same, unless the first and the last page are in memory already.
void read_ahead_if_absent(void const* at, std::size_t n_bytes);

}  // namespace hyrecall
