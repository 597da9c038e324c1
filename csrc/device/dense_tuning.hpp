// How much room a batch's candidates have on a device, and which tiles are looked at first: by what
// was measured on such a device (tuned.hpp), else by a model.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/settings.hpp"

namespace hyrecall {

// Batches of one class are read in one way. Larger ones are cut into pieces of the last.
inline constexpr std::array<std::uint32_t, 5> kBatchClasses{1, 8, 64, 256, 1024};

struct TunedKey {
  std::uint32_t n_multiprocessors;
  std::uint32_t memory_class;  // GiB, the nearest multiple of 16
  FirstPassPlane rows;         // what reads the column's rows as they are; int8: nothing does
  std::uint32_t dim_class;     // the least power of 2 that is not below dim
  std::uint32_t batch_class;   // the least of kBatchClasses that is not below a scope's queries
  friend auto operator<=>(TunedKey const&, TunedKey const&) = default;

  static TunedKey of(std::uint32_t n_multiprocessors, std::uint64_t memory_bytes,
                     FirstPassPlane rows, std::uint32_t dim, std::size_t n_queries);
};

// A measured choice. tools/tuned.py writes a table of them.
struct Tuned {
  TunedKey key;
  FirstPassPlane plane;    // that the first pass reads
  std::uint32_t widest;    // scan: wider ones are left out
  std::uint32_t stride;    // the least, of a sample
  std::uint32_t capacity;  // candidates of a query, beside some for each wanted row
};

// Whether each key is one that TunedKey::of() gives, and they rise.
constexpr bool are_keys_valid(std::span<Tuned const> table) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    TunedKey const& key = table[i].key;
    bool is_class = false;
    for (std::uint32_t const one : kBatchClasses) is_class = is_class || one == key.batch_class;
    if (!is_class || key.n_multiprocessors == 0 || key.memory_class % 16 != 0) return false;
    if (!std::has_single_bit(key.dim_class) || !std::has_single_bit(table[i].stride)) return false;
    if (i > 0 && !(table[i - 1].key < key)) return false;
  }
  return true;
}

// The table's choice for a key, or null.
Tuned const* find_tuned(std::span<Tuned const> table, TunedKey const& key);
// Likewise in tuned.hpp, for a device.
Tuned const* find_tuned(std::string const& folder, int ordinal, FirstPassPlane rows,
                        std::uint32_t dim, std::size_t n_queries);

// The scans that a choice allows.
KernelChoice kernels_of(Tuned const& tuned);

// most_tiles: of a query. tuned: null for the model.
DenseTuning choose_tuning(std::size_t depth, std::size_t most_tiles, Tuned const* tuned = nullptr);
// Of a lexical scan, of whose document tiles each has at most kMostOfDocTile x depth candidates of
// a query, equal scores apart. Few queries have room for many candidates each.
DenseTuning choose_lexical_tuning(std::size_t n_queries, std::size_t depth, std::size_t most_tiles);

}  // namespace hyrecall
